"""The generator of generated/ from policy.yaml: `python -m codegen`.

The generator imports neither the package, which is not built yet, nor torch, which takes seconds. The build passes the
torch that it has imported, and the generator looks up public names of ops in it.

The model (model.py) follows these principles:

- Parse, don't validate. The model has valid values only, so no module after parse.py checks again. An op or a device
  with a problem is reported with its place and dropped. A valid value never replaces a wrong one.
- The model is frozen. It contains no YAML, no place in a file and no fact about the installed PyTorch. So the generated
  files depend on the policy only, and a change of its layout or its comments does not change them.
- A `Rule` is for one overload on one device and a range of PyTorch releases. The parser resolves `like`, `others` and
  alternatives, and the ranges do not overlap. So the users of rules need not know about these.
- A text that C++ or a document needs of a rule is a property of the rule, so templates do not edit strings.
- Rules for the installed PyTorch are checked against its operator schemas. Nothing else depends on the schemas.
"""
