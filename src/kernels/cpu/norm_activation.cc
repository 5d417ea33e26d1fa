// All loops run over the channels of a row inside, which lie side by side, and over cells outside.
// What differs between channels is first brought into coefficients per channel, so that the loops
// know neither groups nor bias nor FiLM.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "kernels/border.h"
#include "kernels/cpu/activation_math.h"
#include "kernels/kernels.h"

namespace slift::kernels::cpu {
namespace {

// The channels of a part that one source holds: from channel `first` of x on, `count` of them.
// Their rows begin at `offset` in the source and are `stride` apart.
struct Columns {
  std::int64_t first = 0, count = 0, offset = 0, stride = 0;
};

// A part of the work with the sizes that follow from it; channels are first <= c < last.
struct Work {
  Work(const NormInputs<float>& in, const NormPart& part)
      : shape(in.shape),
        cells(in.shape.cells()),
        channels(in.shape.channels()),
        width(channels / in.shape.groups),
        first(part.first_group * width),
        last(first + part.groups * width),
        sample(part.sample),
        first_group(part.sample * in.shape.groups + part.first_group),
        row(part.sample * channels),
        out_offset(row * in.shape.out_cells()) {
    const std::int64_t of_a = in.shape.channels_a, of_b = in.shape.channels_b;
    if (first < of_a) {
      a = {first, std::min(last, of_a) - first, part.sample * cells * of_a + first, of_a};
    }
    if (last > of_a) {
      const std::int64_t start = std::max(first, of_a);
      b = {start, last - start, part.sample * cells * of_b + start - of_a, of_b};
    }
  }
  // The index of channel c's group among those of all samples.
  std::int64_t group(std::int64_t c) const { return first_group + (c - first) / width; }

  // Calls body(offset) for each row of channels in the output that shows `cell`.
  template <typename Body>
  void for_each_output(std::int64_t cell, const Body& body) const {
    if (!shape.border) {
      body(out_offset + cell * channels);
      return;
    }
    for_each_image(shape.height, shape.width, cell,
                   [&](std::int64_t place) { body(out_offset + place * channels); });
  }

  NormShape shape;
  std::int64_t cells, channels, width, first, last, sample, first_group;
  std::int64_t row;         // of this sample in an array [batch, C]
  std::int64_t out_offset;  // of this sample in the output
  Columns a, b;
};

// One number per channel of x; only those of a part are set.
using PerChannel = std::vector<float>;

PerChannel per_channel(const Work& work) {
  return PerChannel(static_cast<std::size_t>(work.channels));
}

double bias_of(const NormInputs<float>& in, std::int64_t c) {
  return in.bias == nullptr ? 0.0 : in.bias[c];
}

float film_gain(const NormInputs<float>& in, const Work& work, std::int64_t c) {
  return in.film == nullptr ? 1.0f : 1.0f + in.film_of(work.sample)[c];
}

// out = f(h), h = (source - centre) slope + offset; what is called x below has no bias yet.
struct Coefficients {
  Coefficients(const NormInputs<float>& in, const Work& work, const float* mean, const float* rstd)
      : centre(per_channel(work)), slope(centre), offset(centre) {
    for (std::int64_t c = work.first; c < work.last; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const float gain = film_gain(in, work, c);
      const float beta = in.film == nullptr ? 0.0f : in.film_of(work.sample)[work.channels + c];
      centre[i] = static_cast<float>(mean[work.group(c)] - bias_of(in, c));
      slope[i] = rstd[work.group(c)] * in.scale[c] * gain;
      offset[i] = in.shift[c] * gain + beta;
    }
  }
  PerChannel centre, slope, offset;
};

// Adds up x and x^2 over cells. Squares of float32 are exact in float64: the variance is right to
// 1e-16 mean^2, far below what float32 data can tell.
void add_moments(const Work& work, const Columns& columns, const float* source, double* sums,
                 double* squares) {
  double* __restrict sum = sums + columns.first;
  double* __restrict square = squares + columns.first;
  for (std::int64_t i = 0; i < work.cells; ++i) {
    const float* x = source + columns.offset + i * columns.stride;
    for (std::int64_t c = 0; c < columns.count; ++c) {
      const double value = x[c];
      sum[c] += value;
      square[c] += value * value;
    }
  }
}

void find_statistics(const NormInputs<float>& in, const Work& work, float* mean, float* rstd) {
  std::vector<double> sums(static_cast<std::size_t>(work.channels)), squares(sums);
  add_moments(work, work.a, in.a, sums.data(), squares.data());
  add_moments(work, work.b, in.b, sums.data(), squares.data());
  const auto cells = static_cast<double>(work.cells);
  const double count = cells * static_cast<double>(work.width);
  for (std::int64_t start = work.first; start < work.last; start += work.width) {
    double sum = 0, square = 0;
    for (std::int64_t c = start; c < start + work.width; ++c) {
      const double bias = bias_of(in, c), plain = sums[static_cast<std::size_t>(c)];
      const double moved = cells * bias;
      sum += plain + moved;
      square += squares[static_cast<std::size_t>(c)] + (2 * plain + moved) * bias;
    }
    const double average = sum / count;
    const double variance = std::max(0.0, square / count - average * average);
    mean[work.group(start)] = static_cast<float>(average);
    rstd[work.group(start)] = static_cast<float>(1 / std::sqrt(variance + kNormEpsilon));
  }
}

template <typename F>
void apply_columns(const Work& work, const Columns& columns, const Coefficients& map,
                   const float* source, float* out) {
  const float* centre = map.centre.data() + columns.first;
  const float* slope = map.slope.data() + columns.first;
  const float* offset = map.offset.data() + columns.first;
  for (std::int64_t i = 0; i < work.cells; ++i) {
    const float* x = source + columns.offset + i * columns.stride;
    float* shown = nullptr;  // in the first of the cell's places
    work.for_each_output(i, [&](std::int64_t at) {
      float* __restrict y = out + at + columns.first;
      if (shown != nullptr) {
        std::copy_n(shown, columns.count, y);
        return;
      }
      shown = y;
      for (std::int64_t c = 0; c < columns.count; ++c) {
        y[c] = activate<F>((x[c] - centre[c]) * slope[c] + offset[c]);
      }
    });
  }
}

template <typename F>
void norm_forward(const NormInputs<float>& in, const Work& work, const NormOutputs<float>& out) {
  find_statistics(in, work, out.mean, out.rstd);
  const Coefficients map(in, work, out.mean, out.rstd);
  apply_columns<F>(work, work.a, map, in.a, out.out);
  apply_columns<F>(work, work.b, map, in.b, out.out);
}

// Sums over cells of g = dloss/dh, of g (x - centre) and of x - centre.
struct GradientSums {
  explicit GradientSums(const Work& work)
      : plain(static_cast<std::size_t>(work.channels)), centred(plain), drift(plain) {}
  std::vector<double> plain, centred, drift;
};

// One row of through_activation(). Arguments of their own: only so do compilers see that nothing
// overlaps.
template <typename F>
void row_through_activation(std::int64_t count, const float* __restrict x,
                            const float* __restrict centre, const float* __restrict slope,
                            const float* __restrict offset, const float* __restrict grad_out,
                            float* __restrict grad_x, float* __restrict plain,
                            float* __restrict centred, float* __restrict drift) {
  for (std::int64_t c = 0; c < count; ++c) {
    const float deviation = x[c] - centre[c];
    const float g = grad_out[c] * activation_slope<F>(deviation * slope[c] + offset[c]);
    grad_x[c] = g;
    plain[c] += g;
    centred[c] += g * deviation;
    drift[c] += deviation;
  }
}

// Leaves g in the gradient of the source.
template <typename F>
void through_activation(const Work& work, const Columns& columns, const Coefficients& map,
                        const float* source, const float* grad_out, float* grad_source,
                        GradientSums& sums) {
  constexpr std::int64_t kBlock = 32;  // cells added up in float32
  const auto first = static_cast<std::size_t>(columns.first);
  const auto count = static_cast<std::size_t>(columns.count);
  std::vector<float> plain(count), centred(count), drift(count), folded(count);
  const auto gradient_of = [&](std::int64_t cell) -> const float* {
    const float* found = nullptr;
    work.for_each_output(cell, [&](std::int64_t at) {
      const float* one = grad_out + at + columns.first;
      if (found == nullptr) {
        found = one;
        return;
      }
      if (found != folded.data()) std::copy_n(found, count, folded.data());
      found = folded.data();
      for (std::size_t c = 0; c < count; ++c) folded[c] += one[c];
    });
    return found;
  };
  for (std::int64_t begin = 0; begin < work.cells; begin += kBlock) {
    std::fill(plain.begin(), plain.end(), 0.0f);
    std::fill(centred.begin(), centred.end(), 0.0f);
    std::fill(drift.begin(), drift.end(), 0.0f);
    for (std::int64_t i = begin; i < std::min(begin + kBlock, work.cells); ++i) {
      const std::int64_t at = columns.offset + i * columns.stride;
      row_through_activation<F>(columns.count, source + at, map.centre.data() + first,
                                map.slope.data() + first, map.offset.data() + first, gradient_of(i),
                                grad_source + at, plain.data(), centred.data(), drift.data());
    }
    for (std::size_t c = 0; c < count; ++c) {
      sums.plain[first + c] += plain[c];
      sums.centred[first + c] += centred[c];
      sums.drift[first + c] += drift[c];
    }
  }
}

// dloss/dx = along g + tilt (x - centre) + level.
struct GradientMap {
  explicit GradientMap(const Work& work) : along(per_channel(work)), tilt(along), level(along) {}
  PerChannel along, tilt, level;
};

void through_norm(const Work& work, const Columns& columns, const PerChannel& centres,
                  const GradientMap& map, const float* source,
                  std::initializer_list<const float*> arrived, float* grad_source) {
  const float* centre = centres.data() + columns.first;
  const float* along = map.along.data() + columns.first;
  const float* tilt = map.tilt.data() + columns.first;
  const float* level = map.level.data() + columns.first;
  for (std::int64_t i = 0; i < work.cells; ++i) {
    const float* x = source + columns.offset + i * columns.stride;
    float* __restrict g = grad_source + columns.offset + i * columns.stride;
    for (std::int64_t c = 0; c < columns.count; ++c) {
      g[c] = along[c] * g[c] + tilt[c] * (x[c] - centre[c]) + level[c];
    }
    for (const float* field : arrived) {
      if (field == nullptr) continue;
      const float* more = field + columns.offset + i * columns.stride;
      for (std::int64_t c = 0; c < columns.count; ++c) g[c] += more[c];
    }
  }
}

// The gradients of bias, scale, shift and film, and the map to those of a and b. With n = (x -
// mean) rstd, w = scale (1 + alpha) and means over a group,
//   dloss/dx = rstd (w g - mean(w g) - n mean(w g n)),
// whose sum over cells is the gradient of the bias.
GradientMap close_sums(const NormInputs<float>& in, const Work& work, const float* rstd,
                       const GradientSums& sums, const NormGradients<float>& grad) {
  GradientMap map(work);
  const auto cells = static_cast<double>(work.cells);
  const double count = cells * static_cast<double>(work.width);
  for (std::int64_t start = work.first; start < work.last; start += work.width) {
    const double r = rstd[work.group(start)];
    double level = 0, tilt = 0;
    for (std::int64_t c = start; c < start + work.width; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double plain = sums.plain[i], normed = sums.centred[i] * r;
      const double gain = film_gain(in, work, c), weight = gain * in.scale[c];
      grad.scale[work.row + c] = static_cast<float>(gain * normed);
      grad.shift[work.row + c] = static_cast<float>(gain * plain);
      if (in.film != nullptr) {
        float* film = grad.film + 2 * work.row;
        film[c] = static_cast<float>(in.scale[c] * normed + in.shift[c] * plain);
        film[work.channels + c] = static_cast<float>(plain);
      }
      level += weight * plain;
      tilt += weight * normed;
      map.along[i] = static_cast<float>(r * weight);
    }
    level *= -r / count;
    tilt *= -r * r / count;
    for (std::int64_t c = start; c < start + work.width; ++c) {
      const auto i = static_cast<std::size_t>(c);
      map.level[i] = static_cast<float>(level);
      map.tilt[i] = static_cast<float>(tilt);
      if (in.bias == nullptr) continue;
      grad.bias[work.row + c] =
          static_cast<float>(map.along[i] * sums.plain[i] + tilt * sums.drift[i] + level * cells);
    }
  }
  return map;
}

template <typename F>
void norm_backward(const NormInputs<float>& in, const Work& work, const float* mean,
                   const float* rstd, const NormArrivals<float>& arrivals,
                   const NormGradients<float>& grad) {
  const Coefficients forward_map(in, work, mean, rstd);
  GradientSums sums(work);
  through_activation<F>(work, work.a, forward_map, in.a, arrivals.out, grad.a, sums);
  through_activation<F>(work, work.b, forward_map, in.b, arrivals.out, grad.b, sums);
  const GradientMap map = close_sums(in, work, rstd, sums, grad);
  through_norm(work, work.a, forward_map.centre, map, in.a, {arrivals.a, arrivals.again}, grad.a);
  through_norm(work, work.b, forward_map.centre, map, in.b, {arrivals.b}, grad.b);
}

}  // namespace

void norm_activation(const NormInputs<float>& in, const NormPart& part,
                     const NormOutputs<float>& out) {
  const Work work(in, part);
  in.f == Activation::kSilu ? norm_forward<Silu>(in, work, out) : norm_forward<Gelu>(in, work, out);
}

void norm_activation_backward(const NormInputs<float>& in, const NormPart& part, const float* mean,
                              const float* rstd, const NormArrivals<float>& arrivals,
                              const NormGradients<float>& grad) {
  const Work work(in, part);
  in.f == Activation::kSilu ? norm_backward<Silu>(in, work, mean, rstd, arrivals, grad)
                            : norm_backward<Gelu>(in, work, mean, rstd, arrivals, grad);
}

}  // namespace slift::kernels::cpu
