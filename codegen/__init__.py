"""The generator of `generated/` from `policy.yaml`: `python -m codegen`.

The generator imports neither the package, which is not built yet, nor `torch`, whose import takes seconds. The build
passes the `torch` module that it has imported, and the generator looks up public names of ops in this module.

The model (`model.py`) follows these principles:

- The model has valid values only, so no module after `parse.py` validates again. The parser
  reports a problem with its location, omits the op or device that has the problem, and never corrects a value.
- The model is frozen. It contains no YAML, no location in a file and no fact about the installed PyTorch. Therefore the
  generated files do not change if only the layout or the comments of `policy.yaml` change.
- A `Rule` is for one overload on one device and a range of PyTorch releases. The parser resolves `like`, `others` and
  alternatives, so code that uses rules need not handle them. An overload's ranges on one device do not overlap.
- The names of a rule in C++ and in documents are properties of the `Rule`. Templates only format and escape them.
- The parser checks rules for the installed PyTorch against its operator schemas. Other rules need no schemas.
"""
