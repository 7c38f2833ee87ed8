// The operators on batches of an optimizer's tensors, as Python calls them.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "bindings/gather.h"
#include "bindings/operators.h"
#include "kernels/checks.h"
#include "kernels/steps.h"
#include "kernels/torch_kernels.h"

namespace py = pybind11;

namespace polycast::bindings {

namespace {

using optim::AdamStep;
using optim::OptionalTensor;
using optim::SgdStep;
using optim::Signature;

bool is_plain(const at::Tensor& tensor) {
  return operators::is_plain(tensor);
}

bool is_plain(const OptionalTensor& tensor) {
  return !tensor.has_value() || operators::is_plain(*tensor);
}

// Runs a call whose errors count the tensors of a batch. Where it raises, check looks for what is wrong with them once
// more, and can name the parameter.
template <class Call, class Check>
auto with_names(const Batch& batch, const Call& call, const Check& check) {
  try {
    return call();
  } catch (...) {
    const py::gil_scoped_acquire gil;
    check([&](size_t index) { return batch.name(index); });
    throw;
  }
}

template <class... Arguments>
auto find_operator(const char* name, Signature<Arguments...>) {
  return operators::find<void(Arguments...)>(name);
}

template <class Step>
void run(const Batch& batch, const Step& step) {
  static const auto op = find_operator(c10::str("polycast::", Step::name).c_str(), optim::SignatureOfStep<Step>());
  if (batch.is_subclass) {
    optim::check(step);
    return optim::compose(step, /*one_by_one=*/true);
  }
  const bool all_plain = batch.is_plain && is_plain(step.lr) && is_plain(step.found_inf) && is_plain(step.grad_scale) &&
                         is_plain(step.clip_coef);
  Step::apply(step, [&](const auto&... arguments) { operators::call(op, all_plain, arguments...); });
}

// A step on a batch: its operator's arguments, of which the batch has the lists.
template <class Step, class Arguments = optim::SignatureOfStep<Step>, size_t lists = 0>
struct OnBatch;

template <class Step, class... Rest, size_t lists>
struct OnBatch<Step, Signature<at::TensorList, Rest...>, lists> : OnBatch<Step, Signature<Rest...>, lists + 1> {};

template <class Step, class... Rest, size_t lists>
struct OnBatch<Step, Signature<Rest...>, lists> {
  template <size_t... key>
  static Step make(std::index_sequence<key...>, const Batch& batch, Rest... rest) {
    return {batch.params, batch.grads, batch.state.at(key)..., rest...};
  }

  static void check(const Batch& batch, Rest... rest) {
    optim::check(make(std::make_index_sequence<lists - 2>(), batch, rest...), [&](size_t index) {
      const py::gil_scoped_acquire gil;
      return batch.name(index);
    });
  }

  static void call(const Batch& batch, Rest... rest) {
    const Step step = make(std::make_index_sequence<lists - 2>(), batch, rest...);
    const auto version = [&] { return step.params[0].is_inference() ? 0 : step.params[0]._version(); };
    const int64_t before = version();
    with_names(batch, [&] { run(batch, step); }, [&](const multi_tensor::Names& names) { optim::check(step, names); });
    if (version() == before && !step.params[0].is_inference()) {
      return;  // skipped, where the host knows it
    }
    for (const auto& [view, copy] : batch.resolved) {
      view.copy_(copy);
    }
    std::for_each(batch.wholes.begin(), batch.wholes.end(), &raise_version);
  }
};

// For kernels in Python: what all others ask of the lists and of the tensors beside them.
template <class Step>
void check_step(
    const std::vector<std::vector<at::Tensor>>& lists,
    const at::Tensor& lr,
    const OptionalTensor& found_inf,
    const OptionalTensor& grad_scale,
    const OptionalTensor& clip_coef) {
  Step step{};
  size_t next = 0;
  const auto fill = [&](auto& argument) {
    if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, at::TensorList>) {
      argument = lists.at(next++);
    }
  };
  Step::apply(step, [&](auto&... arguments) { (fill(arguments), ...); });
  step.lr = lr;
  step.found_inf = found_inf;
  step.grad_scale = grad_scale;
  step.clip_coef = clip_coef;
  optim::check(step);
}

template <class Call>
auto on_gradients(const Batch& batch, const char* op, bool written, const Call& call) {
  return with_names(batch, call, [&](const multi_tensor::Names& names) {
    multi_tensor::check_lists(op, {{"grads", batch.grads, written}}, names);
  });
}

std::tuple<at::Tensor, at::Tensor> find_non_finite(const Batch& batch) {
  static const auto op = operators::find<operators::FindNonFinite>("polycast::find_non_finite");
  return on_gradients(
      batch, "find_non_finite", false, [&] { return operators::call(op, batch.is_plain, batch.grads); });
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> norm(const Batch& batch, double norm_type) {
  static const auto op = operators::find<operators::Norm>("polycast::norm");
  return on_gradients(
      batch, "norm", false, [&] { return operators::call(op, batch.is_plain, batch.grads, norm_type); });
}

at::Tensor unscale(const Batch& batch, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  static const auto op = operators::find<operators::Unscale>("polycast::unscale_");
  const bool all_plain = batch.is_plain && is_plain(found_inf) && is_plain(inv_scale);
  at::Tensor non_finite = on_gradients(
      batch, "unscale_", true, [&] { return operators::call(op, all_plain, batch.grads, found_inf, inv_scale); });
  std::for_each(batch.wholes.begin(), batch.wholes.end(), &raise_version);
  return non_finite;
}

void update_scale(
    at::Tensor& scale,
    at::Tensor& growth_tracker,
    const at::Tensor& found_inf,
    double growth_factor,
    double backoff_factor,
    int64_t growth_interval,
    double min_scale,
    double max_scale) {
  static const auto op = operators::find<operators::UpdateScale>("polycast::update_scale_");
  const bool all_plain = is_plain(scale) && is_plain(growth_tracker) && is_plain(found_inf);
  operators::call(
      op,
      all_plain,
      scale,
      growth_tracker,
      found_inf,
      growth_factor,
      backoff_factor,
      growth_interval,
      min_scale,
      max_scale);
}

bool has_float16(const Batch& batch) {
  const at::TensorList grads = batch.grads;
  const auto is_half = [](const at::Tensor& tensor) { return tensor.scalar_type() == at::kHalf; };
  return std::any_of(grads.begin(), grads.end(), is_half);
}

}  // namespace

void bind_batches(py::module_& module) {
  const auto no_gil = py::call_guard<py::gil_scoped_release>();
  module.def("is_sharded", &is_sharded);
  module.def("gather_gradients", &gather_gradients, py::arg("param_groups"), py::arg("coalesce_in_place") = false);
  module.def(
      "gather_step",
      [](const py::list& param_groups, const py::dict& state, const std::vector<py::tuple>& names, bool is_ready) {
        StepTensors tensors = gather_step(param_groups, state, names, is_ready);
        return std::make_tuple(std::move(tensors.batches), std::move(tensors.sparse), std::move(tensors.not_ready));
      });
  py::class_<Batch>(module, "Batch")
      .def_readonly("group", &Batch::group)
      .def_property_readonly("device", [](const Batch& batch) { return py::cast(batch.device); })
      .def_property_readonly("mesh", [](const Batch& batch) { return batch.layout.mesh; })
      .def_property_readonly("split_dims", [](const Batch& batch) { return batch.layout.split; })
      .def_readonly("positions", &Batch::positions)
      .def("has_float16", &has_float16)
      .def("find_non_finite", &find_non_finite, no_gil)
      .def("norm", &norm, no_gil, py::arg("norm_type"))
      .def("unscale_", &unscale, no_gil, py::arg("found_inf"), py::arg("inv_scale"))
      .def("check_adam_step", &OnBatch<AdamStep>::check, no_gil)
      .def("adam_step", &OnBatch<AdamStep>::call, no_gil)
      .def("check_sgd_step", &OnBatch<SgdStep>::check, no_gil)
      .def("sgd_step", &OnBatch<SgdStep>::call, no_gil)
      .def("release", [](Batch& batch) {
        batch.grads.clear();
        batch.owned.clear();
        batch.wholes.clear();
      });
  module.def("update_scale", &update_scale, no_gil);
  module.def("trust_torch_kernels", &multi_tensor::trust_torch_kernels);
  module.def("check_adam_step", &check_step<AdamStep>);
  module.def("check_sgd_step", &check_step<SgdStep>);
}

}  // namespace polycast::bindings
