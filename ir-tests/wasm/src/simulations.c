/* Simulations that are too long for a tape, each as a time loop (`brolga.h`) and as a plain loop of
   the same steps: ten bodies that attract each other, and a plate of 64 by 64 points that cools. */
#define BROLGA
#include "brolga.h"

enum { BODIES = 10, SIDE = 64, POINTS = SIDE * SIDE };

struct bodies {
    double at[BODIES][3], speed[BODIES][3];
};

/* A step of the symplectic Euler method. */
static void attract(void *state, const void *params, int i) {
    (void)i;
    struct bodies *s = state;
    const double *mass = params;
    const double h = 1e-4;
    for (int a = 0; a < BODIES; a++)
        for (int b = a + 1; b < BODIES; b++) {
            double d[3], square = 0.01;
            for (int k = 0; k < 3; k++) {
                d[k] = s->at[a][k] - s->at[b][k];
                square += d[k] * d[k];
            }
            double pull = h / (square * __builtin_sqrt(square));
            for (int k = 0; k < 3; k++) {
                s->speed[a][k] -= d[k] * mass[b] * pull;
                s->speed[b][k] += d[k] * mass[a] * pull;
            }
        }
    for (int a = 0; a < BODIES; a++)
        for (int k = 0; k < 3; k++) s->at[a][k] += h * s->speed[a][k];
}

static struct bodies begun(const double *at) {
    struct bodies s;
    for (int a = 0; a < BODIES; a++)
        for (int k = 0; k < 3; k++) {
            s.at[a][k] = at[3 * a + k];
            s.speed[a][k] = 0;
        }
    return s;
}

static double spread(const struct bodies *s) {
    double sum = 0;
    for (int a = 0; a < BODIES; a++)
        for (int k = 0; k < 3; k++) sum += s->at[a][k] * s->at[a][k];
    return sum;
}

/* at: three numbers for each of ten bodies. mass: ten. */
__attribute__((export_name("bodies"))) double bodies(const double *at, const double *mass, int n) {
    struct bodies s = begun(at);
    brolga_time_loop(attract, &s, sizeof s, mass, n);
    return spread(&s);
}

__attribute__((export_name("bodies_plain"))) double bodies_plain(const double *at, const double *mass, int n) {
    struct bodies s = begun(at);
    for (int i = 0; i < n; i++) attract(&s, mass, i);
    return spread(&s);
}

/* The plate now and one step ago, by turns. */
static double plate[2][POINTS];

/* An explicit step. The edge keeps its temperature. */
static void cool(void *state, const void *params, int i) {
    double (*grids)[POINTS] = state;
    const double *rate = params;
    const double *u = grids[i % 2];
    double *next = grids[1 - i % 2];
    for (int y = 1; y < SIDE - 1; y++)
        for (int x = 1; x < SIDE - 1; x++) {
            int p = SIDE * y + x;
            next[p] = u[p] + rate[p] * (u[p - 1] + u[p + 1] + u[p - SIDE] + u[p + SIDE] - 4 * u[p]);
        }
}

static void heat(const double *start) {
    for (int p = 0; p < POINTS; p++) plate[0][p] = plate[1][p] = start[p];
}

static double heat_left(int n) {
    double sum = 0;
    for (int p = 0; p < POINTS; p++) sum += plate[n % 2][p] * plate[n % 2][p];
    return sum;
}

/* start, rate: 64 times 64 numbers; rates up to a quarter. */
__attribute__((export_name("plate"))) double cooled(const double *start, const double *rate, int n) {
    heat(start);
    brolga_time_loop(cool, plate, sizeof plate, rate, n);
    return heat_left(n);
}

__attribute__((export_name("plate_plain"))) double cooled_plain(const double *start, const double *rate, int n) {
    heat(start);
    for (int i = 0; i < n; i++) cool(plate, rate, i);
    return heat_left(n);
}
