// Axes of charts: where a value lies, and where the ticks are.
#pragma once

#include <vector>

namespace weightlift::report {

class Axis {
public:
    /// Maps [low, high] to [from, to] (pixels; `to` may be the smaller one).
    static Axis linear(double low, double high, double from, double to);
    /// The same by logarithm; low > 0.
    static Axis logarithmic(double low, double high, double from, double to);

    [[nodiscard]] double operator()(double value) const;
    /// Round values inside the range, at most a handful: 1, 2 or 5 times a power of ten; on a
    /// logarithmic axis powers of ten, or 1, 2, 5 where these are few.
    [[nodiscard]] std::vector<double> ticks() const;

private:
    double low_ = 0, high_ = 1, from_ = 0, to_ = 1;
    bool is_logarithmic_ = false;
};

}  // namespace weightlift::report
