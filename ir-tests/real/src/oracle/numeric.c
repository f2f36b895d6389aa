/* python/numeric.py said again in C, for the oracle only. */
#include "../wasm/real.h"

real horner(real x, int n) {
    real total = 0, sign = 1;
    for (; n > 0; n--, sign = -sign)
        total = (total + sign / n) * x;
    return total;
}

real cube_root(real a) {
    real x = a, step = 1;
    while (step * step > (real)1e-20) {
        step = (x - a / (x * x)) / 3;
        x -= step;
    }
    return x;
}

real factorial(real x) { return x < 1 ? 1 - (real)0.42 * x * (1 - x) : x * factorial(x - 1); }

real huber(real x, real limit) {
    real size = R(fabs)(x);
    return size <= limit ? x * x / 2 : limit * (size - limit / 2);
}

real compound(real principal, real rate, int years) {
    for (int i = 0; i < years; i++)
        principal *= 1 + rate;
    return principal;
}

real python_orbit(real cx, real cy, int turns) {
    real x = 0, y = 0;
    for (; turns > 0 && x * x + y * y < 4; turns--) {
        real next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
    }
    return x * x + y * y;
}
