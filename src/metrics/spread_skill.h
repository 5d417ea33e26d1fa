// The spread-skill ratio: does an ensemble spread as far as its mean is wrong?
//
//   ratio = spread / error,  spread^2 = mean_g (n + 1) / n s_g^2,  error^2 = mean_g e_g^2
//
// over groups g, such as cells or times: s_g^2 is the unbiased variance of the group's n members
// and e_g^2 the mean squared distance of its verifications from the mean of the members. Groups
// count alike, however many verifications they have.
//
// If members and verifications are drawn from one distribution of variance v, both squares have the
// mean (1 + 1/n) v: the ratio is near 1 for every n from 2 on. It is near 0 for a collapsed
// ensemble and above 1 for one that spreads too far.
// Fortin, Abaza, Anctil, Turcotte, "Why should ensemble spread match the RMSE of the ensemble
// mean?", J. Hydrometeorol. 15, 2014.
#pragma once

#include <cstdint>
#include <span>

namespace slift {

class SpreadSkill {
 public:
  // Adds a group: at least two members and one verification, in any order. A std::logic_error
  // leaves all as it was.
  void add(std::span<const float> ensemble, std::span<const float> verifications);
  // Adds all groups of another.
  void add(const SpreadSkill& other);

  double spread() const;  // both in the unit of the values; NaN before the first group
  double error() const;
  double ratio() const { return spread() / error(); }  // NaN also if both are 0

 private:
  double spread_squares_ = 0, error_squares_ = 0;  // sums over groups
  std::int64_t groups_ = 0;
};

}  // namespace slift
