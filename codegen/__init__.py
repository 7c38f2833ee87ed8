"""The generator of generated/ from policy.yaml: `python -m codegen`.

The generator imports neither the package, which is not built yet, nor `torch`, whose import takes seconds. The build
passes the `torch` module that it has imported, and the generator looks up public names of ops in this module.

The model (model.py) follows these principles:

- Parse, don't validate. The model has valid values only, so no module after parse.py validates again. An op or a device
  with a problem is reported with its location and omitted. A valid value never replaces a wrong one.
- The model is frozen. It contains no YAML, no location in a file and no fact about the installed PyTorch. Therefore the
  generated files do not change if only the layout or the comments of policy.yaml change.
- A `Rule` is for one overload on one device and a range of PyTorch releases. The parser resolves `like`, `others` and
  alternatives, and the ranges do not overlap. So code that uses rules need not handle these.
- A string that C++ or a document contains for a rule is a property of the rule, so templates do not edit strings.
- Rules for the installed PyTorch are checked against its operator schemas. No other check depends on the schemas.
"""
