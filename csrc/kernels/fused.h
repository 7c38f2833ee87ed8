// A step by torch's own fused kernels, on the devices where they do all that is asked.
//
// They take lists of one type whose tensors lie alike, skip where found_inf is 1, divide by one number, and write the
// divided gradients back. So what is of several types is copied into lists of the widest, and the results back.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/steps.h"

namespace polycast::optim {

// Takes the step, or returns false where torch's kernels cannot: none serves the device, a count is no float32, a
// momentum that dampening leaves out has yet to start, parameters may share memory, or float64 would be divided by a
// rounded number.
bool step_fused(const AdamStep& step);
bool step_fused(const SgdStep& step);

}  // namespace polycast::optim
