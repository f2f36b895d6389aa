/* Classical Runge-Kutta steps, in place, of a damped driven pendulum: theta' = omega, omega' = -c omega - g sin(theta) + a cos(w t). */
#include "real.h"

enum { STATES = 2 };

NOINLINE void pendulum(real t, const real *y, const real *p, real *dy) {
    dy[0] = y[1];
    dy[1] = -p[0] * y[1] - p[1] * R(sin)(y[0]) + p[2] * R(cos)(p[3] * t);
}

EXPORT void rk4_step(real t, real h, real *y, const real *p) {
    real k1[STATES], k2[STATES], k3[STATES], k4[STATES], at[STATES];
    pendulum(t, y, p, k1);
    for (int i = 0; i < STATES; i++)
        at[i] = y[i] + h / 2 * k1[i];
    pendulum(t + h / 2, at, p, k2);
    for (int i = 0; i < STATES; i++)
        at[i] = y[i] + h / 2 * k2[i];
    pendulum(t + h / 2, at, p, k3);
    for (int i = 0; i < STATES; i++)
        at[i] = y[i] + h * k3[i];
    pendulum(t + h, at, p, k4);
    for (int i = 0; i < STATES; i++)
        y[i] += h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
}

EXPORT real rk4_energy(real t, real h, int steps, real *y, const real *p) {
    for (int s = 0; s < steps; s++)
        rk4_step(t + s * h, h, y, p);
    return y[1] * y[1] / 2 + p[1] * (1 - R(cos)(y[0]));
}
