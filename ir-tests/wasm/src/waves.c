/* Waves: what C has for complex numbers beyond arithmetic. Its functions branch where a part of a number is exactly zero.
 */
#include <complex.h>

#include "program.h"

/* Brightness where so many waves meet: each has an amplitude, a phase and a distance; they fade along it. */
EXPORT(brightness)
double brightness(int n, const double *amplitude, const double *phase, const double *distance, double length, double fading) {
    double complex sum = 0;
    for (int i = 0; i < n; i++)
        sum += amplitude[i] * cexp(CMPLX(-fading * distance[i], 2 * PI * distance[i] / length + phase[i]));
    return creal(sum * conj(sum));
}

/* The impedance of a line with a load at its end, at a frequency: real and imaginary part, and both together. */
EXPORT(impedance)
double impedance(const double *per_metre, double length, double load, double omega, double *parts) {
    double complex series = CMPLX(per_metre[0], omega * per_metre[1]), across = CMPLX(per_metre[2], omega * per_metre[3]);
    double complex own = csqrt(series / across), turns = csqrt(series * across) * length;
    double complex z = own * (load * ccosh(turns) + own * csinh(turns)) / (own * ccosh(turns) + load * csinh(turns));
    parts[0] = creal(z);
    parts[1] = cimag(z);
    return parts[0] + parts[1];
}

/* z^w + sin(z) cos(w). */
EXPORT(mixed)
double mixed(double x, double y, double u, double v) {
    double complex z = CMPLX(x, y), w = CMPLX(u, v);
    double complex sum = cpow(z, w) + csin(z) * ccos(w);
    return creal(sum) + 2 * cimag(sum);
}

/* z -> z^w exp(sin(cos(sinh(cosh(z))))) in single precision, a few times. */
EXPORT(folded)
float folded(int n, float x, float y, float w) {
    float complex z = CMPLXF(x, y);
    for (int i = 0; i < n; i++)
        z = cpowf(z, w) * cexpf(csinf(ccosf(csinhf(ccoshf(z) / 4))));
    return crealf(z) * cimagf(z);
}
