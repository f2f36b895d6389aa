/* Numbers of more digits: C's long double, which is no type of WebAssembly's, so that each operation is a call of the
 * compiler's library.
 */
#include "program.h"
#include <math.h>
#include <stdlib.h>

/* The variance of measurements far from zero. */
EXPORT(variance)
double variance(int n, const double *x) {
    long double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        sum += x[i];
        squares += (long double)x[i] * x[i];
    }
    return (squares - sum * sum / n) / (n - 1);
}

/* The length of a vector of singles. */
EXPORT(length)
float length(int n, const float *x) {
    long double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (long double)x[i] * x[i];
    return sqrtl(sum);
}

/* Functions of the library. */
EXPORT(functions)
double functions(double x, double y) {
    long double a = x, b = y;
    long double sum = expl(-a * b) + sinl(a) * cosl(b) + logl(1 + a * a) + powl(a, b) + atan2l(a, -b) + tanhl(a - b);
    return sum + hypotl(a, b) * expm1l(b) + log1pl(a) * cbrtl(b) + fmal(a, b, a) + exp2l(a) * erfl(b);
}

/* Numbers that are taken apart, rounded, chosen and converted. */
EXPORT(parts)
double parts(double x, double y) {
    long double a = x, b = y, whole;
    int exponent;
    long double m = frexpl(a * b, &exponent), f = modfl(3 * a, &whole);
    long double sum = m * m + ldexpl(a, 3) * f + scalbnl(b, -exponent) + whole * b;
    sum += fmaxl(a, b) * fminl(a, -b) + floorl(4 * a) * b + fmodl(5 * a, b) + copysignl(a, -b) - fabsl(b - a);
    if (a > b)
        sum -= a / b;
    if (a != 1 && !isnan(b))
        sum *= -b;
    return sum + (int)(8 * a) * b + (long long)(16 * b) * a + (unsigned)(2 * a);
}

typedef struct {
    long double place;
    float weight;
    double speed;
} Body;

/* Bodies on the heap that are exchanged; what is long is beside what is not. */
EXPORT(moved)
double moved(int n, const double *place, const double *speed, double time) {
    Body *all = malloc(n * sizeof(Body));
    for (int i = 0; i < n; i++)
        all[i] = (Body){place[i], 1 / (float)(i + 1), speed[i]};
    for (int i = 0; i + 1 < n; i++) {
        Body kept = all[i];
        all[i] = all[i + 1];
        all[i + 1] = kept;
    }
    long double sum = 0;
    for (int i = 0; i < n; i++) {
        all[i].place += all[i].speed * time;
        sum += all[i].weight * all[i].place * all[i].place * (i + 1);
    }
    free(all);
    return sum;
}
