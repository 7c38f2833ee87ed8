#include "python/sharding.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include "python/params.h"

namespace py = pybind11;

namespace polycast::python {

namespace {

// A class of torch.distributed.tensor, null until somebody has imported that. Never released: classes stay.
class LateClass {
 public:
  explicit constexpr LateClass(const char* name) : name_(name) {}

  bool has(PyObject* object) {
    if (class_ == nullptr) {
      const auto module = py::reinterpret_steal<py::object>(PyImport_GetModule(py::str(package).ptr()));
      if (!module || !py::hasattr(module, name_)) {
        return false;
      }
      class_ = py::object(module.attr(name_)).release().ptr();
    }
    return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(class_)) != 0;
  }

 private:
  static constexpr const char* package = "torch.distributed.tensor";

  const char* name_;
  PyObject* class_ = nullptr;
};

py::object object_of(const at::Tensor& tensor) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

// Reads an attribute without making a text for its name each time.
py::object get(const py::handle& object, PyObject* name) {
  PyObject* const value = PyObject_GetAttr(object.ptr(), name);
  if (value == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(value);
}

PyObject* intern(const char* name) {
  return PyUnicode_InternFromString(name);
}

py::object spec_of(const at::Tensor& tensor) {
  static PyObject* const name = intern("_spec");
  return get(object_of(tensor), name);
}

py::object mesh_of(const py::object& spec) {
  static PyObject* const name = intern("mesh");
  return get(spec, name);
}

py::object placements_of(const py::object& spec) {
  static PyObject* const name = intern("placements");
  return get(spec, name);
}

bool same(const py::object& left, const py::object& right) {
  return left.is(right) || left.equal(right);
}

bool is_python(const at::Tensor& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Python);
}

std::string text(const py::object& object) {
  return py::str(object).cast<std::string>();
}

[[noreturn]] void refuse_grad(const std::string& name, const std::string& found, const py::object& wanted) {
  throw py::value_error(
      "the gradient of " + name + " is " + found + " and the parameter is placed as " + text(placements_of(wanted)) +
      " on " + text(mesh_of(wanted)) + "; give it a DTensor on the same mesh");
}

}  // namespace

bool is_sharded(const at::Tensor& tensor) {
  static LateClass dtensor("DTensor");
  return is_python(tensor) && dtensor.has(object_of(tensor).ptr());
}

at::Tensor local_of(const at::Tensor& tensor) {
  static PyObject* const name = intern("_local_tensor");
  if (!is_sharded(tensor)) {
    return tensor;
  }
  py::object local = get(object_of(tensor), name);
  if (is_python(unpack(local.ptr())) && py::hasattr(local, "trigger_wait")) {
    local = local.attr("trigger_wait")();
  }
  return unpack(local.ptr());
}

bool Layout::operator==(const Layout& other) const {
  return split == other.split && same(mesh, other.mesh);
}

Layout layout_of(const at::Tensor& param, const std::string& name) {
  static LateClass replicate("Replicate"), partial("Partial");
  if (!is_sharded(param)) {
    return {};
  }
  const py::object spec = spec_of(param);
  const py::tuple placements = placements_of(spec);
  Layout layout{mesh_of(spec), {}};
  for (size_t dim = 0; dim < placements.size(); ++dim) {
    PyObject* const placement = PyTuple_GET_ITEM(placements.ptr(), dim);
    if (partial.has(placement)) {
      throw py::value_error(
          name + " is placed as " + text(placements) +
          ", a sum that is still to be made; redistribute it to Replicate() " +
          "or Shard(dim) before the optimizer gets it");
    }
    if (!replicate.has(placement)) {
      layout.split.push_back(static_cast<int64_t>(dim));
    }
  }
  return layout;
}

void align_grad(const at::Tensor& param, const std::string& name) {
  const at::Tensor& grad = grad_of(param);
  const py::object wanted = spec_of(param);
  if (!is_sharded(grad)) {
    refuse_grad(name, "no DTensor", wanted);
  }
  const py::object found = spec_of(grad);
  if (found.is(wanted)) {
    return;
  }
  const py::object placements = placements_of(wanted);
  const bool same_mesh = same(mesh_of(found), mesh_of(wanted));
  if (same_mesh && same(placements_of(found), placements)) {
    return;
  }
  if (!same_mesh) {
    refuse_grad(name, "placed as " + text(placements_of(found)) + " on " + text(mesh_of(found)), wanted);
  }
  const at::NoGradGuard no_grad;
  param.mutable_grad() = unpack(object_of(grad).attr("redistribute")(mesh_of(wanted), placements).ptr());
}

void raise_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) {
    tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace polycast::python
