/* Complex numbers, divided: compilers call a function of their library for that, which scales by powers of two, bit by bit, so that nothing overflows on the way.
 */
#include <complex.h>

#include "program.h"

/* The power that a ladder of n links takes at a frequency, if a volt is put on it: resistors and coils in line, capacitors across, a resistor at the end. */
EXPORT(ladder)
double ladder(int n, const double *ohms, const double *henries, const double *farads, double end, double frequency) {
    double omega = 2 * PI * frequency;
    double complex z = end;
    for (int i = n - 1; i >= 0; i--) {
        double complex across = 1 / (I * omega * farads[i]);
        z = ohms[i] + I * omega * henries[i] + z * across / (z + across);
    }
    return creal(1 / z);
}

/* A root of z^3 + a z + b by Newton's iteration from x + i y: where it is after some steps, squared. */
EXPORT(newton)
double newton(double a, double b, double x, double y, int steps) {
    double complex z = x + I * y;
    for (int i = 0; i < steps; i++)
        z -= (z * z * z + a * z + b) / (3 * z * z + a);
    return creal(z) * creal(z) + 2 * cimag(z) * cimag(z);
}

/* (a z + b) / (z + 3/2 i), again and again, in single precision and at a scale at which the square of the divisor need not be a number. */
EXPORT(mapped)
float mapped(int n, const float *a, float b, float scale) {
    float complex z = scale * (0.5f + I);
    for (int i = 0; i < n; i++)
        z = scale * ((a[i] * z + b * scale) / (z + 1.5f * scale * I));
    return crealf(z) / scale + cimagf(z) / scale;
}
