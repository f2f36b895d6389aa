/* wasm/nbody.rs said again in C, for the oracle only: seven numbers per body, position, velocity, mass. */
#include "../wasm/real.h"

enum { BODY = 7, VELOCITY = 3, MASS = 6 };

real energy(real *b, int n) {
    real total = 0;
    for (int i = 0; i < n; i++) {
        real *p = b + BODY * i, *v = p + VELOCITY;
        total += p[MASS] * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) / 2;
        for (int j = 0; j < i; j++) {
            real *q = b + BODY * j, squared = 0;
            for (int k = 0; k < 3; k++)
                squared += (p[k] - q[k]) * (p[k] - q[k]);
            total -= p[MASS] * q[MASS] / R(sqrt)(squared);
        }
    }
    return total;
}

void advance(real *b, int n, real dt) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            real *p = b + BODY * i, *q = b + BODY * j, squared = 0;
            for (int k = 0; k < 3; k++)
                squared += (p[k] - q[k]) * (p[k] - q[k]);
            for (int k = 0; k < 3 && i != j; k++)
                p[VELOCITY + k] += dt * q[MASS] * (q[k] - p[k]) / (squared * R(sqrt)(squared));
        }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            b[BODY * i + k] += dt * b[BODY * i + VELOCITY + k];
}

real swap_energy(real *b, int n, int i, int j) {
    for (int k = 0; k < BODY; k++) {
        real kept = b[BODY * i + k];
        b[BODY * i + k] = b[BODY * j + k];
        b[BODY * j + k] = kept;
    }
    return energy(b, n);
}
