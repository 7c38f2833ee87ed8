// What the compositions of ATen ops have in common: the parameters of a step joined to parts, and the lists of a part.
// Nothing is read back: a skipped step writes the old values.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <utility>
#include <vector>

#include "kernels/fused.h"
#include "kernels/lists.h"
#include "kernels/parts.h"
#include "kernels/steps.h"

namespace polycast::optim {

// The scalars of a step.
template <class Step>
class Scalars {
 public:
  explicit Scalars(const Step& step)
      : maximize_(step.maximize),
        lr_(step.lr.reshape({})),
        skip_(scalar(step.found_inf)),
        grad_scale_(scalar(step.grad_scale)),
        clip_coef_(scalar(step.clip_coef)) {
    if (skip_.defined()) {
      skip_ = skip_.ne(0);
    }
  }

  at::Tensor lr(at::ScalarType type) const {
    return lr_.to(type);
  }

  // A gradient unscaled, clipped and, to maximize, negated.
  at::Tensor divided(at::Tensor grad) const {
    const at::ScalarType type = grad.scalar_type();
    if (grad_scale_.defined()) {
      grad = grad / grad_scale_.to(type);
    }
    if (clip_coef_.defined()) {
      grad = grad * clip_coef_.to(type);
    }
    return maximize_ ? -grad : grad;
  }

  // Of what a step writes.
  at::Tensor choose(const at::Tensor& before, const at::Tensor& after) const {
    return skip_.defined() ? at::where(skip_, before, after) : after;
  }

 private:
  static at::Tensor scalar(const OptionalTensor& tensor) {
    return tensor.has_value() ? tensor->reshape({}) : at::Tensor();
  }

  bool maximize_;
  at::Tensor lr_;
  at::Tensor skip_;
  at::Tensor grad_scale_;
  at::Tensor clip_coef_;
};

// The lists of a step at the places of a part. What is joined of several tensors lies in one tensor of one dimension;
// one tensor is taken as it is.
template <class Step>
class ListsOfPart {
  using Tensors = std::vector<at::Tensor>;

 public:
  ListsOfPart(const Step& step, const multi_tensor::Part& part)
      : scalars_(step), type_(part.type), models_(multi_tensor::as_real(part.of(step.params))) {
    for (const multi_tensor::List& list : step.streams()) {
      lists_.push_back(multi_tensor::as_real(part.of(list.tensors)));
    }
    for (const at::Tensor& counter : part.of(step.counters().tensors)) {
      counters_.push_back(counter.reshape({}));
    }
  }

  // A large tensor in pieces, so that what is computed on the way needs little memory.
  std::vector<ListsOfPart> pieces() const {
    std::vector<ListsOfPart> pieces(models_.size() == 1 ? multi_tensor::pieces_of(models_[0]).size() : 1, *this);
    for (size_t list = 0; list < lists_.size() && pieces.size() > 1; ++list) {
      const auto views = lists_[list].empty() ? Tensors() : multi_tensor::pieces_of(lists_[list][0]);
      if (views.size() == 1) {
        return {*this};
      }
      for (size_t index = 0; index < views.size(); ++index) {
        pieces[index].lists_[list] = {views[index]};
      }
    }
    for (ListsOfPart& piece : pieces) {
      piece.models_ = pieces.size() > 1 ? piece.lists_[0] : models_;
      piece.is_last_ = &piece == &pieces.back();
    }
    return pieces;
  }

  at::Tensor lr() const {
    return scalars_.lr(type_);
  }

  // The values of a list, in the order of the step's; undefined where the step does without it.
  at::Tensor values(size_t list) const {
    const Tensors& tensors = lists_[list];
    return tensors.empty()       ? at::Tensor()
           : tensors.size() == 1 ? tensors[0].to(type_)
                                 : multi_tensor::join_like(models_, tensors, type_);
  }

  at::Tensor gradient() const {
    return scalars_.divided(values(1));
  }

  // The counters, one for each tensor.
  at::Tensor counters() const {
    return counters_.size() == 1 ? counters_[0] : at::stack(counters_);
  }

  // A number for each tensor, as one for each element.
  at::Tensor spread(const at::Tensor& numbers) const {
    if (models_.size() == 1) {
      return numbers;
    }
    std::vector<at::Tensor> spread;
    for (const at::Tensor& number : numbers.unbind()) {
      spread.push_back(number.expand(models_[spread.size()].numel()));
    }
    return at::cat(spread);
  }

  void write(size_t list, const at::Tensor& before, const at::Tensor& after) const {
    if (!before.defined()) {
      return;
    }
    const at::Tensor chosen = scalars_.choose(before, after);
    if (models_.size() == 1) {
      lists_[list][0].copy_(chosen);
    } else {
      at::_foreach_copy_(lists_[list], multi_tensor::split_like(models_, chosen));
    }
  }

  void write_counters(const at::Tensor& before, const at::Tensor& after) const {
    if (!is_last_) {
      return;
    }
    const at::Tensor chosen = scalars_.choose(before, after);
    if (counters_.size() == 1) {
      counters_[0].copy_(chosen);
    } else {
      at::_foreach_copy_(counters_, chosen.unbind());
    }
  }

 private:
  Scalars<Step> scalars_;
  at::ScalarType type_;
  Tensors models_;
  std::vector<Tensors> lists_;
  mutable Tensors counters_;
  bool is_last_ = true;
};

// Runs compute(lists) for each part. Where parameters may share memory each is stepped by itself, after the one before.
template <class Step, class Compute>
void compose_parts(const Step& step, bool one_by_one, const Compute& compute) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<multi_tensor::Part> parts;
  for (size_t place = 0; place < step.params.size(); ++place) {
    const int64_t limit = one_by_one ? -1 : multi_tensor::joined_limit;
    multi_tensor::add_place(parts, place, step.params[place], widest_type(step, place), /*is_joined=*/true, limit);
  }
  for (const multi_tensor::Part& part : parts) {
    for (const ListsOfPart<Step>& lists : ListsOfPart<Step>(step, part).pieces()) {
      compute(lists);
    }
  }
  raise_versions(step);
}

// The step on a device without a kernel of ours.
template <class Step>
void step_elsewhere(const Step& step) {
  check(step);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!step.params.empty() && !step_fused(step)) {
    compose(step, any_overlap(step));
  }
}

}  // namespace polycast::optim
