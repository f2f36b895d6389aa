/* The models of diffsl/ and the expressions of evalexpr/ said again in C, for the oracle only. Calling conventions as there. */
#include "../wasm/real.h"

/* predator.ds; data: growth, catch, death, capacity. The factors 0.2 and 0.1 are doubles in the model. */
void predator_set_u0(real *u, real *data, int thread, int threads) {
    u[0] = (real)0.1 * data[3];
    u[1] = (real)0.5;
}

void predator_rhs(real t, real *u, real *data, real *rr, int thread, int threads) {
    real prey = u[0], predator = u[1];
    rr[0] = data[0] * (1 + (real)0.2 * R(sin)(t)) * prey * (1 - prey / data[3]) - data[1] * prey * predator;
    rr[1] = (real)0.1 * data[1] * prey * predator - data[2] * predator;
}

void predator_calc_out(real t, real *u, real *data, real *out, int thread, int threads) {
    out[0] = u[0] + u[1];
    out[1] = R(log)(u[0]);
}

/* DiffSL's own tangent of rhs: drr = the derivative of rhs along (du, ddata). */
void predator_rhs_grad(real t, real *u, real *du, real *data, real *ddata, real *rr, real *drr, int thread, int threads) {
    real prey = u[0], predator = u[1], season = 1 + (real)0.2 * R(sin)(t), room = 1 - prey / data[3];
    drr[0] = season * (ddata[0] * prey * room + data[0] * du[0] * room
                       - data[0] * prey * (du[0] / data[3] - prey * ddata[3] / (data[3] * data[3])))
             - ddata[1] * prey * predator - data[1] * du[0] * predator - data[1] * prey * du[1];
    drr[1] = (real)0.1 * (ddata[1] * prey * predator + data[1] * du[0] * predator + data[1] * prey * du[1])
             - ddata[2] * predator - data[2] * du[1];
}

/* heat.ds; data: conductivity, ambient, then b (five) and the stencil (five). */
enum { CELLS = 5, B = 2, STENCIL = 7 };

void heat_set_u0(real *u, real *data, int thread, int threads) {
    for (int i = 0; i < CELLS; i++) {
        real edge = i == 0 ? data[1] : 2 * data[1];
        int inside = i > 0 && i < CELLS - 1;
        u[i] = inside ? 1 : edge;
        data[B + i] = inside ? 0 : edge;
    }
}

void heat_rhs(real t, real *u, real *data, real *rr, int thread, int threads) {
    for (int i = 0; i < CELLS; i++) {
        data[STENCIL + i] = (i > 0 ? u[i - 1] : 0) - 2 * u[i] + (i < CELLS - 1 ? u[i + 1] : 0);
        rr[i] = data[0] * (data[STENCIL + i] + data[B + i]) + R(exp)(-u[i]);
    }
}

/* evalexpr/build.sh: three expressions of x, y and z. */
void expressions(real *in, real *out) {
    real x = in[0], y = in[1], z = in[2];
    out[0] = x * R(exp)(-(y * y)) + R(sin)(x) * z;
    out[1] = R(fabs)(x - y) / R(sqrt)(z) + R(log)(x * x + 1) - x * x * x;
    out[2] = R(cos)(x * z) * R(cos)(x * z) + R(exp)(x) / (1 + R(exp)(x));
}

/* Their derivatives with respect to x. */
void expressions_dx(real *in, real *out) {
    real x = in[0], y = in[1], z = in[2], logistic = 1 / (1 + R(exp)(-x));
    out[0] = R(exp)(-(y * y)) + R(cos)(x) * z;
    out[1] = (x > y ? 1 : -1) / R(sqrt)(z) + 2 * x / (x * x + 1) - 3 * x * x;
    out[2] = -z * R(sin)(2 * x * z) + logistic * (1 - logistic);
}
