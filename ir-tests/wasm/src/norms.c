/* Lengths at zero, written out: roots of sums of squares, of which each is zero. A norm has a cone's tip there, whose mean slope is zero. */
#include <complex.h>

#include "program.h"

/* Distances of all points in the plane from each other, and from themselves. */
EXPORT(pairs)
double pairs(const double *p, int n) {
    double s = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double dx = p[2 * i] - p[2 * j], dy = p[2 * i + 1] - p[2 * j + 1];
            s += sqrt(dx * dx + dy * dy);
        }
    return s;
}

/* The same in single precision. */
EXPORT(pairs_single)
float pairs_single(const float *p, int n) {
    float s = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float dx = p[2 * i] - p[2 * j], dy = p[2 * i + 1] - p[2 * j + 1];
            s += sqrtf(dx * dx + dy * dy);
        }
    return s;
}

EXPORT(norm)
double norm(const double *x, int n) {
    double s = 0;
    for (int i = 0; i < n; i++)
        s += x[i] * x[i];
    return sqrt(s);
}

/* A standard deviation. */
EXPORT(spread)
double spread(const double *x, int n) {
    double m = 0, v = 0;
    for (int i = 0; i < n; i++)
        m += x[i];
    m /= n;
    for (int i = 0; i < n; i++)
        v += (x[i] - m) * (x[i] - m);
    return sqrt(v / n);
}

/* The root in a function of its own, or the squares. */
__attribute__((noinline)) static double root(double s) { return s > 1e9 ? 0 : sqrt(s); }
__attribute__((noinline)) static double squares(double x, double y) { return x > 1e9 ? 0 : x * x + y * y; }

EXPORT(apart)
double apart(double x, double y, double z) { return root(squares(x, y)) + z * z; }

/* Squares that lie in memory until the root is taken. */
EXPORT(stored)
double stored(const double *x, double *squares, int n) {
    for (int i = 0; i < n; i++)
        squares[i] = x[i] * x[i];
    double s = 0;
    for (int i = 0; i < n; i++)
        s += sqrt(squares[i]);
    return s;
}

/* A length of lengths, by the library. */
EXPORT(moduli)
double moduli(const double *z, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) {
        double r = cabs(z[2 * i] + I * z[2 * i + 1]);
        s += r * r;
    }
    return hypot(sqrt(s), z[0]);
}
