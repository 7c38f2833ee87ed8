"""The grammar of policies, for the generator and for policies at run time.

The modules form a line, and each imports only what stands before it: errors, nodes, fields and versions, dtypes,
categories and signatures, casts; files reads YAML. Nothing here knows the build, and nothing imports torch or, but for
files, YAML.

Its modules import each other by relative names only, since the generator imports them without the rest of polycast,
which is not built yet.
"""
