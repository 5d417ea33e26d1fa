#include "systems/wave_solver.h"

#include <cmath>

#include "systems/wave_step.h"

namespace slift {

double WaveSolver::largest_stable_step(std::int64_t grid) {
  return 2 / (std::sqrt(2.0) * static_cast<double>(grid / 2));
}

WaveState WaveSolver::start(std::span<const float> speed, std::span<const float> start) const {
  return {.speed = {speed.begin(), speed.end()},
          .u = {start.begin(), start.end()},
          .velocity = FftVector<float>(fft_.field_size()),
          .steps = 0,
          .spectrum = RealFft2d<float>::Spectrum(fft_.spectrum_size()),
          .laplacian = FftVector<float>(fft_.field_size())};
}

void WaveSolver::apply_laplacian(WaveState& state) const {
  fft_.forward(state.u, state.spectrum);
  const auto n = static_cast<std::int32_t>(fft_.height()),
             columns = static_cast<std::int32_t>(fft_.columns());
  std::complex<float>* value = state.spectrum.data();
  for (std::int32_t row = 0; row < n; ++row) {
    for (std::int32_t column = 0; column < columns; ++column) {
      *value++ *= laplacian_factor(row, column, n);
    }
  }
  fft_.backward(state.spectrum, state.laplacian);
}

void WaveSolver::step(WaveState& state) const {
  apply_laplacian(state);
  const float kick = state.steps == 0 ? dt_ / 2 : dt_;
  const std::size_t points = state.u.size();
  const float *speed = state.speed.data(), *laplacian = state.laplacian.data();
  float *u = state.u.data(), *velocity = state.velocity.data();
  for (std::size_t i = 0; i < points; ++i) {
    kick_and_drift(kick, dt_, speed[i], laplacian[i], u[i], velocity[i]);
  }
  ++state.steps;
}

}  // namespace slift
