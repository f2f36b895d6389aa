/* Adaptive quadrature by recursion (Simpson, Richardson's correction), of functions chosen at run time. */
#include "program.h"

typedef double Integrand(double x, const void *context);

typedef struct {
    double rate;
    double frequency;
} Wave;

static double bell(double x, const void *context) {
    const double *width = context;
    return exp(-x * x / (*width * *width));
}

static double wave(double x, const void *context) {
    const Wave *w = context;
    return exp(-w->rate * x) * sin(w->frequency * x);
}

static double root(double x, const void *context) {
    const double *shift = context;
    return sqrt(x * x + *shift);
}

static double simpson(double left, double middle, double right, double width) {
    return (left + 4 * middle + right) * width / 6;
}

static double refine(Integrand *f, const void *context, double a, double b, double left, double middle, double right,
                     double whole, double tolerance, int depth) {
    double width = b - a, centre = (a + b) / 2;
    double first = f((a + centre) / 2, context), second = f((centre + b) / 2, context);
    double one = simpson(left, first, middle, width / 2), two = simpson(middle, second, right, width / 2);
    double error = one + two - whole;
    if (depth == 0 || (error < 15 * tolerance && error > -15 * tolerance))
        return one + two + error / 15;
    return refine(f, context, a, centre, left, first, middle, one, tolerance / 2, depth - 1) +
           refine(f, context, centre, b, middle, second, right, two, tolerance / 2, depth - 1);
}

static double integrate(Integrand *f, const void *context, double a, double b, double tolerance) {
    double left = f(a, context), middle = f((a + b) / 2, context), right = f(b, context);
    return refine(f, context, a, b, left, middle, right, simpson(left, middle, right, b - a), tolerance, 12);
}

/* The integral from a to b of function 0 (bell of width p), 1 (wave of rate p and frequency q) or 2 (root of x^2 + p).
 */
EXPORT(quadrature)
double quadrature(int which, double a, double b, double p, double q, double tolerance) {
    static Integrand *const functions[] = {bell, wave, root};
    Wave context = {p, q};
    if (which < 0 || which > 2)
        __builtin_trap();
    return integrate(functions[which], &context, a, b, tolerance);
}
