"""The generator of generated/ from policy.yaml: `python -m codegen`.

Nothing here imports the package, which is not built yet, or torch, which takes seconds. The build has imported torch
and passes it in; then the public names of ops are looked up in it.

The model (model.py) has these principles:

- Parse, don't validate: the model holds valid values only, so no module after parse.py checks again. An op or
  device with a problem is reported with its place and dropped. A valid value never replaces a wrong one.
- The model is frozen. It holds no YAML, no place in a file and no fact of the installed torch. So the generated files
  depend on the policy alone, and a change of layout or of a comment changes none of them.
- A `Rule` is of one overload on one device for a range of torch releases. The parser resolves `like`,
  `others` and alternatives, and the ranges do not overlap. So readers of rules need to know none of these.
- What C++ or a document needs of a rule is a property of the rule, so templates hold no string surgery.
- Rules that hold for the installed torch are checked against its schemas. Nothing else depends on it.
"""
