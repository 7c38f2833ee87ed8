"""Rules of a policy at run time.

The modules form a line, and each imports only what stands before it: operators knows the operators of every library by
any of their names, values turns a dict into nodes of the grammar, rows holds what rules come to, reader reads nodes to
rows, text writes rows as rules again.
"""
