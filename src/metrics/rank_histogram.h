// The rank histogram: where do verifications stand among the members of their ensemble?
//
// Among n members a verification y has the place
//   v = (#{x_i < y} + u (1 + #{x_i = y})) / (n + 1),  u uniform in (0, 1].
// u spreads a rank over its n + 1-th of the line and breaks ties in one: if members and
// verification are drawn from one distribution, with ties or without, v is uniform whatever n. The
// histogram counts v in equal bins, so ensembles of different sizes may be added. It is flat for a
// reliable ensemble, high at both ends for one that spreads too little, high in the middle for one
// that spreads too far, and slanted for one that is biased.
// Hamill, "Interpretation of rank histograms for verifying ensemble forecasts", Mon. Weather Rev.
// 129, 2001.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slift {

class RankHistogram {
 public:
  explicit RankHistogram(std::int64_t bins);  // at least 1

  // Adds a group: verifications, in any order, of one ensemble, ascending and not empty, with one
  // u for each of them, drawn for it alone. A std::logic_error leaves all as it was.
  void add(std::span<const float> ensemble, std::span<const float> verifications,
           std::span<const float> uniforms);

  const std::vector<std::int64_t>& counts() const { return counts_; }
  std::int64_t total() const { return total_; }

  // How far the histogram is from flat: the root mean square over the B bins of f_b B - 1, f_b
  // being the share of verifications in bin b. The relative error of a bar; 0 if all are equal,
  // sqrt(B - 1) if one has all. Its square is the chi-squared statistic over the number of
  // verifications, so it does not grow with that number as chi-squared does. NaN if all is empty.
  double unevenness() const;

  // The root mean square of unevenness() for a perfectly reliable ensemble, the least one may hope
  // for. With M verifications in groups of m_g of ensembles of n_g members
  //   sqrt( (B - 1) / M^2 sum_g m_g (1 + (m_g - 1) / (n_g + 2)) ),
  // for independent groups of continuous values; the second term comes from the verifications of a
  // group sharing one ensemble. Exact if m_g = 1, where it is sqrt((B - 1) / M), and if B divides
  // n_g + 1; otherwise too large, but little so from n_g = 2 B on.
  double expected_unevenness() const;

 private:
  std::vector<std::int64_t> counts_;
  std::int64_t total_ = 0;
  double effective_ = 0;  // the sum over g above
};

}  // namespace slift
