#include <cufft.h>

#include <stdexcept>
#include <string>

#include "systems/cuda/device.h"
#include "systems/cuda/wave.h"
#include "systems/wave_step.h"

namespace slift::cuda {

namespace {

constexpr unsigned kThreads = 256;

unsigned blocks_for(std::size_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

// One thread an element of all waves.

__global__ void start_waves(const float* start, std::size_t points, std::size_t total, float* u,
                            float* velocity) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= total) return;
  u[i] = start[i % points];
  velocity[i] = 0;
}

__global__ void advance(float kick, float drift, const float* speed, const float* laplacian,
                        std::size_t total, float* u, float* velocity) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < total) kick_and_drift(kick, drift, speed[i], laplacian[i], u[i], velocity[i]);
}

// One thread an element of wave blockIdx.y: its place then follows by 32-bit arithmetic.

__global__ void scale_spectra(int n, int columns, float2* spectra) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), size = n * columns;
  if (i >= size) return;
  const int row = i / columns;
  const float factor = laplacian_factor(row, i - row * columns, n);
  float2& value = spectra[static_cast<std::size_t>(blockIdx.y) * size + i];
  value = make_float2(factor * value.x, factor * value.y);
}

// Every (n / m)-th point of u into state `frame` of `frames`.
__global__ void store_frame(const float* u, int n, int m, int frame, int frames, float* states) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), size = m * m;
  if (i >= size) return;
  const std::size_t wave = blockIdx.y;
  const int stride = n / m, row = i / m * stride, column = i % m * stride;
  states[(wave * frames + frame) * size + i] = u[(wave * n + row) * n + column];
}

void check_fft(cufftResult result, const char* what) {
  if (result != CUFFT_SUCCESS) {
    throw std::runtime_error(std::string(what) + ": cuFFT error " + std::to_string(result));
  }
}

// Owns a plan for the n x n fields of all waves, one after the other.
class FftPlan {
 public:
  FftPlan(int n, cufftType type) {
    int size[2] = {n, n};
    check_fft(cufftPlanMany(&plan_, 2, size, nullptr, 1, 0, nullptr, 1, 0, type, WaveBatch::kWaves),
              "wave: FFT plan");
  }
  ~FftPlan() { cufftDestroy(plan_); }
  FftPlan(const FftPlan&) = delete;
  FftPlan& operator=(const FftPlan&) = delete;

  cufftHandle get() const { return plan_; }

 private:
  cufftHandle plan_ = 0;
};

}  // namespace

struct WaveBatch::Impl {
  explicit Impl(const Settings& s)
      : n(static_cast<int>(s.grid)),
        columns(n / 2 + 1),
        m(static_cast<int>(s.stored_grid)),
        points(static_cast<std::size_t>(s.grid * s.grid)),
        dt(static_cast<float>(s.dt)),
        stored_steps(s.stored_steps),
        forward(n, CUFFT_R2C),
        backward(n, CUFFT_C2R),
        start(std::span<const float>(s.start)),
        speed(kWaves * points),
        u(kWaves * points),
        velocity(kWaves * points),
        laplacian(kWaves * points),
        spectra(static_cast<std::size_t>(kWaves) * n * columns),
        states(kWaves * stored_steps.size() * m * m) {}

  void step(bool first) {
    check_fft(cufftExecR2C(forward.get(), u.data(), spectra.data()), "wave: forward FFT");
    const auto size = static_cast<std::size_t>(n) * columns;
    scale_spectra<<<dim3(blocks_for(size), kWaves), kThreads>>>(n, columns, spectra.data());
    check_fft(cufftExecC2R(backward.get(), spectra.data(), laplacian.data()), "wave: backward FFT");
    advance<<<blocks_for(u.size()), kThreads>>>(first ? dt / 2 : dt, dt, speed.data(),
                                                laplacian.data(), u.size(), u.data(),
                                                velocity.data());
  }

  const int n, columns, m;
  const std::size_t points;
  const float dt;
  const std::vector<std::int64_t> stored_steps;
  FftPlan forward, backward;
  DeviceArray<float> start, speed, u, velocity, laplacian;
  DeviceArray<cufftComplex> spectra;
  DeviceArray<float> states;
};

WaveBatch::WaveBatch(const Settings& settings) : impl_(std::make_unique<Impl>(settings)) {}

WaveBatch::~WaveBatch() = default;

void WaveBatch::run(std::span<const float> speeds, std::span<float> states) {
  Impl& d = *impl_;
  if (speeds.size() != d.speed.size() || states.size() > d.states.size()) {
    throw std::logic_error("WaveBatch::run: buffers do not fit");
  }
  d.speed.upload(speeds);
  start_waves<<<blocks_for(d.u.size()), kThreads>>>(d.start.data(), d.points, d.u.size(),
                                                    d.u.data(), d.velocity.data());
  const auto frames = static_cast<int>(d.stored_steps.size());
  const auto frame_size = static_cast<std::size_t>(d.m) * d.m;
  std::int64_t steps = 0;
  for (int frame = 0; frame < frames; ++frame) {
    for (; steps < d.stored_steps[static_cast<std::size_t>(frame)]; ++steps) d.step(steps == 0);
    store_frame<<<dim3(blocks_for(frame_size), kWaves), kThreads>>>(d.u.data(), d.n, d.m, frame,
                                                                    frames, d.states.data());
    check("wave: launch");
  }
  synchronise("wave: steps");
  d.states.download(states);
}

}  // namespace slift::cuda
