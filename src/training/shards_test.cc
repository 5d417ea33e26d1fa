#include "training/shards.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "core/errors.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

// A layer and a mean of squares: values that rounding in another order would change.
struct Problem {
  std::int64_t rows;
  Tensor x, weight, bias;

  explicit Problem(std::int64_t n) : rows(n) {
    torch::manual_seed(3);
    x = torch::randn({rows, 7});
    weight = torch::randn({5, 7}).requires_grad_();
    bias = torch::randn({5}).requires_grad_();
  }
  Tensor loss_of(std::int64_t first, std::int64_t count) const {
    return torch::tanh(x.narrow(0, first, count).matmul(weight.t()) + bias).square().mean();
  }
  Tensor backward(std::int64_t shard) const {
    return backward_in_shards(
        {weight, bias}, rows, shard,
        [this](std::int64_t first, std::int64_t count) { return loss_of(first, count); });
  }
};

TEST(Shards, AddUpToTheGradientOfTheWholeBatch) {
  const Problem whole(103), parts(103);  // the last shard is short
  const Tensor loss = whole.loss_of(0, 103);
  loss.backward();
  const Tensor sharded = parts.backward(10);
  EXPECT_FALSE(sharded.requires_grad());
  EXPECT_TRUE(at::allclose(sharded, loss, 1e-6, 1e-7));
  EXPECT_TRUE(at::allclose(parts.weight.grad(), whole.weight.grad(), 1e-5, 1e-7));
  EXPECT_TRUE(at::allclose(parts.bias.grad(), whole.bias.grad(), 1e-5, 1e-7));
}

TEST(Shards, AddToTheGradientThatIsThere) {
  const Problem twice(40), once(40);
  twice.backward(8);
  twice.backward(8);
  once.backward(8);
  EXPECT_TRUE(at::equal(twice.weight.grad(), once.weight.grad() * 2));
}

// Autograd then returns one tensor for both.
TEST(Shards, ParametersMayHaveTheSameGradient) {
  const Tensor a = torch::zeros({3}).requires_grad_(), b = torch::zeros({3}).requires_grad_();
  const Tensor x = torch::ones({8, 3});
  backward_in_shards({a, b}, 8, 2, [&](std::int64_t first, std::int64_t count) {
    return (x.narrow(0, first, count) * (a + b)).sum(1).mean();
  });
  EXPECT_TRUE(at::equal(a.grad(), torch::ones({3})));
  EXPECT_TRUE(at::equal(b.grad(), torch::ones({3})));
}

TEST(Shards, BitsDoNotDependOnThreads) {
  const int before = at::get_num_threads();
  const Problem one(1000);
  set_threads(1);
  const Tensor loss = one.backward(32);
  for (const int threads : {2, 3, 8}) {
    set_threads(threads);
    for (int round = 0; round < 20; ++round) {
      const Problem many(1000);
      EXPECT_TRUE(at::equal(many.backward(32), loss));
      EXPECT_TRUE(at::equal(many.weight.grad(), one.weight.grad()));
      EXPECT_TRUE(at::equal(many.bias.grad(), one.bias.grad()));
    }
  }
  set_threads(before);
}

TEST(Shards, PassOnWhatALossThrows) {
  const Problem problem(64);
  EXPECT_THROW(backward_in_shards({problem.weight}, 64, 8,
                                  [](std::int64_t, std::int64_t) -> Tensor { fail("no loss"); }),
               UserError);
}

TEST(Shards, AreOfTheBatchAlone) {
  EXPECT_EQ(rows_of_shard(1024, {2}), 128);
  EXPECT_EQ(rows_of_shard(1 << 20, {2}), 256);
  EXPECT_EQ(rows_of_shard(7, {2}), 32);
  EXPECT_EQ(rows_of_shard(32, {1, 32, 32}), 2);
  EXPECT_EQ(rows_of_shard(5, {1, 32, 32}), 1);
}

}  // namespace
}  // namespace slift
