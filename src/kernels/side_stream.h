// Work of a backward pass that nothing waits for but a leaf of autograd, on a second CUDA stream
// beside the rest. It is for backward functions of torch::autograd::Function alone.
#pragma once

#include <functional>

#include "tensor/torch_compat.h"

namespace slift::ops {

// Whether autograd makes the gradient that a backward function returns for its input `input`
// input.grad() as it is, and reads it no more: `input` is a leaf without a gradient that is used
// once in all graphs alive, and no gradients of gradients are wanted. The gradient must be one that
// is needed (AutogradContext::needs_input_grad()), of the type, shape and strides of `input`, and
// no one else may hold it: else autograd drops it or copies it.
bool becomes_the_gradient(const Tensor& input);

// Calls `body`, which enqueues on the current stream, with a side stream as that one: one for each
// thread and device, which first waits for what the stream that was current, the main one, was
// given so far. The main stream waits for the body when the next but one is to run, so that a short
// one behind a long one costs it nothing, and at the latest at the end of this backward pass, when
// the stream of whoever called backward() does, too. So bodies run one after the other, two are
// held at most, and all of it is inside a recording of the pass. The host waits for nothing.
//
// `body` is kept until then, with the tensors it captures: all that it reads or works in, allocated
// before, for memory that is given back earlier would be used again at once. It allocates nothing.
// What it writes must be read by no one until then, as becomes_the_gradient() says, and must not be
// captured, or it would be copied.
//
// If the pass fails, the main stream waits when the pass is destroyed; results are lost. Only one
// pass at a time may use a device.
//
// On the CPU `body` is just called.
void run_beside_backward(const at::Device& device, std::function<void()> body);

}  // namespace slift::ops
