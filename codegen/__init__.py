"""The generator of generated/ from policy.yaml: `python -m codegen`.

The modules form a line, and each imports only what stands before it: grammar, schemas, model, parse, render; write
stands apart and knows nothing of policies. Nothing here imports torch, which takes seconds; the build, which has done
so, hands it in, and the public names of ops are looked up in it. `grammar` is a link into the package, which reads
policies at run time with the same modules; the generator runs before there is a package to import it from.

The principles of the model (model.py), from which the rest follows:

- It is parsed, not validated: what has been read holds only what is right, so nothing after parse.py checks again. An
  entry with a problem is reported with its place and left out; no valid value ever takes the place of a wrong one.
- It is frozen and holds no YAML, no place in a file and no fact of the installed torch. So the texts are a function of
  the policy alone, whoever renders them, and a change of layout or of a comment changes no generated file.
- One row (`Registration`) is one overload on one device for a range of torch releases: `like`, `others` and
  alternatives are resolved while parsing, and ranges do not overlap. Whoever reads rows has no rules to know.
- What C++ or a document needs of a row is a property of it, so the templates hold no string surgery.
- The installed torch is only asked whether rows fit its schemas, for those rows that hold for its release.
"""
