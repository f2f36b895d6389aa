/* Simpson's rule over a family of integrands chosen by number: calls through a function pointer. */
#include "real.h"

typedef real integrand(real x, real p);

static real power_law(real x, real p) { return p * x * x; }
static real decay(real x, real p) { return R(exp)(-p * x); }
static real rational(real x, real p) { return 1 / (1 + p * x * x); }

EXPORT real integrate(int which, real a, real b, int panels, real p) {
    integrand *f = which == 0 ? power_law : which == 1 ? decay : rational;
    real h = (b - a) / panels, sum = 0;
    for (int i = 0; i < panels; i++) {
        real x = a + i * h;
        sum += f(x, p) + 4 * f(x + h / 2, p) + f(x + h, p);
    }
    return sum * h / 6;
}
