"""The grammar of policies, for the generator and for policies at run time.

The modules form a line, and each imports only what stands before it: errors, nodes, fields and versions, dtypes,
categories and signatures, casts; files reads YAML. Nothing here knows the build, and nothing imports torch or, but for
files, YAML.

It is a package beside `polycast`, since the generator runs before that one can be imported.
"""
