/* What C++ programs are made of: containers, algorithms, classes with virtual functions, closures, variants.
 */
#include "program.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace {
class Shape {
  public:
    virtual ~Shape() = default;
    virtual double area() const = 0;
};

class Circle : public Shape {
    double radius;

  public:
    explicit Circle(double radius) : radius(radius) {}
    double area() const override { return PI * radius * radius; }
};

class Box : public Shape {
    std::array<double, 2> sides;

  public:
    Box(double a, double b) : sides{a, b} {}
    double area() const override { return sides[0] * sides[1]; }
};
} // namespace

extern "C" {
/* The sum of the roots of areas: circles and boxes, three numbers for one of each. */
EXPORT(shapes)
double shapes(int n, const double *x) {
    std::vector<std::unique_ptr<Shape>> all;
    for (int i = 0; i + 2 < n; i += 3) {
        all.push_back(std::make_unique<Circle>(x[i]));
        all.push_back(std::make_unique<Box>(x[i + 1], x[i + 2]));
    }
    double sum = 0;
    for (const auto &shape : all)
        sum += std::sqrt(shape->area());
    return sum;
}

/* Pairs by their second number, weighted by where they end up. */
EXPORT(ranked)
double ranked(int n, const double *x) {
    std::vector<std::pair<double, double>> all;
    for (int i = 0; i + 1 < n; i += 2)
        all.emplace_back(x[i], x[i + 1]);
    std::stable_sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a.second < b.second; });
    double sum = 0, weight = 1;
    for (auto [a, b] : all) {
        sum += weight * a * b;
        weight *= 1.5;
    }
    return sum;
}

/* Closures, one of the other's result. */
EXPORT(composed)
double composed(int n, const double *x, double start) {
    std::vector<std::function<double(double)>> steps;
    for (int i = 0; i < n; i++)
        steps.push_back([c = x[i]](double t) { return std::sin(c * t) + c; });
    return std::accumulate(steps.begin(), steps.end(), start, [](double t, const auto &step) { return step(t); });
}

/* Sums by key, where keys are numbers, and where they are words. */
EXPORT(grouped)
double grouped(int n, const double *x) {
    std::map<int, double> by_number;
    std::map<std::string, double> by_word;
    for (int i = 0; i < n; i++) {
        by_number[i * 7 % 5] += x[i] * x[i];
        by_word[i % 2 ? "odd, and longer than a string that fits beside its length" : "even"] += x[i] * (i + 1);
    }
    double sum = 1;
    for (const auto &[key, value] : by_number)
        sum = sum / 2 + value * key;
    for (const auto &[key, value] : by_word)
        sum *= value;
    return sum;
}

/* Numbers, pairs and nothing, by turns. */
EXPORT(variants)
double variants(int n, const double *x) {
    std::vector<std::variant<double, std::array<double, 2>, std::monostate>> all;
    std::optional<double> large;
    for (int i = 0; i < n; i++) {
        if (i % 3 == 0)
            all.emplace_back(x[i]);
        else if (i % 3 == 1)
            all.emplace_back(std::array<double, 2>{x[i], 2 * x[i - 1]});
        else
            all.emplace_back();
        if (!large && x[i] > 1)
            large = x[i];
    }
    double sum = 0;
    for (const auto &one : all) {
        if (const auto *number = std::get_if<double>(&one))
            sum += *number * *number;
        else if (const auto *pair = std::get_if<std::array<double, 2>>(&one))
            sum += (*pair)[0] * (*pair)[1];
    }
    return sum * large.value_or(3);
}

/* A complex number, again and again, and algorithms on what comes out. */
EXPORT(orbit)
double orbit(int n, double x, double y, double c) {
    std::complex<double> z(x, y);
    std::vector<double> sizes(n), sums(n);
    for (auto &size : sizes) {
        z = std::exp(z * z / (1.0 + std::abs(z))) - c;
        size = std::norm(z);
    }
    std::partial_sum(sizes.begin(), sizes.end(), sums.begin());
    std::nth_element(sizes.begin(), sizes.begin() + n / 2, sizes.end());
    return std::inner_product(sums.begin(), sums.end(), sizes.rbegin(), 0.0) + std::arg(z) * sizes[n / 2];
}
}
