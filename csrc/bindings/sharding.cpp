#include "bindings/sharding.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include "bindings/params.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

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

std::string text(const py::object& object) {
  return py::str(object).cast<std::string>();
}

constexpr const char* package = "torch.distributed.tensor";

[[noreturn]] void refuse_grad(const Param& param, const std::string& found, const py::object& wanted) {
  throw py::value_error(
      "the gradient of " + param.name() + " is " + found + " and the parameter is placed as " +
      text(placements_of(wanted)) + " on " + text(mesh_of(wanted)) + "; give it a DTensor on the same mesh");
}

}  // namespace

bool is_sharded(const at::Tensor& tensor) {
  static LateClass dtensor(package, "DTensor");
  return is_python(tensor) && dtensor.has(object_of(tensor).ptr());
}

at::Tensor local_of(const at::Tensor& tensor) {
  static PyObject* const name = intern("_local_tensor");
  if (!is_python(tensor)) {
    return tensor;
  }
  py::object local = object_of(tensor);
  if (is_sharded(tensor)) {
    local = get(local, name);
  }
  if (is_python(unpack(local.ptr())) && py::hasattr(local, "trigger_wait")) {
    local = local.attr("trigger_wait")();
  }
  return unpack(local.ptr());
}

bool Layout::operator==(const Layout& other) const {
  return split == other.split && same(mesh, other.mesh);
}

Layout layout_of(const Param& param) {
  static LateClass replicate(package, "Replicate"), partial(package, "Partial");
  if (!is_sharded(param.tensor)) {
    return {};
  }
  const py::object spec = spec_of(param.tensor);
  const py::tuple placements = placements_of(spec);
  Layout layout{mesh_of(spec), {}};
  for (size_t dim = 0; dim < placements.size(); ++dim) {
    PyObject* const placement = PyTuple_GET_ITEM(placements.ptr(), dim);
    if (partial.has(placement)) {
      throw py::value_error(
          param.name() + " is placed as " + text(placements) +
          ", a sum that is still to be made; redistribute it to Replicate() " +
          "or Shard(dim) before the optimizer gets it");
    }
    if (!replicate.has(placement)) {
      layout.split.push_back(static_cast<int64_t>(dim));
    }
  }
  return layout;
}

void align_grad(const Param& param) {
  const at::Tensor& grad = grad_of(param.tensor);
  const py::object wanted = spec_of(param.tensor);
  if (!is_sharded(grad)) {
    refuse_grad(param, "no DTensor", wanted);
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
    refuse_grad(param, "placed as " + text(placements_of(found)) + " on " + text(mesh_of(found)), wanted);
  }
  const at::NoGradGuard no_grad;
  param.tensor.mutable_grad() = unpack(object_of(grad).attr("redistribute")(mesh_of(wanted), placements).ptr());
}

void raise_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) {
    tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace polycast::bindings
