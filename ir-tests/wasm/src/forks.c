/* Tasks (`brolga.h`): rows of a layer, a sum, two halves by recursion, functions of entries, and what
   needs its own stack in each. */
#define BROLGA
#include "brolga.h"
#include "program.h"

struct layer {
    const double *w, *x;
    double *y;
    int m;
};

/* y_i = sin(w_i . x), with products in a frame of the task. */
static void rows(void *ctx, int lo, int hi) {
    struct layer *c = ctx;
    double products[16];
    for (int i = lo; i < hi; i++) {
        double s = 0;
        for (int j = 0; j < c->m; j++) products[j & 15] = c->w[i * c->m + j] * c->x[j], s += products[j & 15];
        c->y[i] = sin(s);
    }
}

EXPORT(layer) double layer(int n, int m, const double *w, const double *x, double *y, int grain) {
    struct layer c = {w, x, y, m};
    brolga_par_for(rows, &c, 0, n, grain);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += y[i] * y[i];
    return sum;
}

/* The neighbours' product of clad's benchmark: x_i x_{i+1}, once around. */
struct ring {
    const double *x;
    int n;
};

static double around(void *ctx, int lo, int hi) {
    struct ring *c = ctx;
    double sum = 0;
    for (int i = lo; i < hi; i++) sum += c->x[i] * c->x[(i + 1) % c->n];
    return sum;
}

EXPORT(ring) double ring(int n, const double *x, int grain) {
    struct ring c = {x, n};
    return brolga_par_reduce_f64(around, &c, 0, n, grain);
}

/* A sum of powers by halves: each fork is one of a task, but for the first. */
struct half {
    const double *x;
    int lo, hi;
    double found;
};

static void halves(void *arg) {
    struct half *h = arg;
    if (h->hi - h->lo == 1) {
        double x = h->x[h->lo];
        h->found = x * x * x;
        return;
    }
    int mid = (h->lo + h->hi) / 2;
    struct half a = {h->x, h->lo, mid, 0}, b = {h->x, mid, h->hi, 0};
    brolga_par_join(halves, &a, halves, &b);
    h->found = a.found + b.found;
}

EXPORT(cubes) double cubes(int n, const double *x) {
    struct half all = {x, 0, n, 0};
    halves(&all);
    return all.found;
}

/* Parts of a range within tasks of entries, by functions that are not the same. */
struct job {
    const double *x;
    double *y;
    int n;
};

static void squares_of(void *ctx, int lo, int hi) {
    struct job *j = ctx;
    for (int i = lo; i < hi; i++) j->y[i] = j->x[i] * j->x[i];
}

static void squares(void *arg) {
    struct job *j = arg;
    brolga_par_for(squares_of, j, 0, j->n, 1);
}

static void sines(void *arg) {
    struct job *j = arg;
    for (int i = 0; i < j->n; i++) j->y[i] = sin(j->x[i] * j->x[0]);
}

EXPORT(jobs) double jobs(int n, const double *x, double *y) {
    struct job a = {x, y, n}, b = {x, y + n, n};
    brolga_entry entries[] = {{squares, &a}, {sines, &b}};
    brolga_par_n(entries, 2);
    double sum = 0;
    for (int i = 0; i < 2 * n; i++) sum += y[i] * (i + 1);
    return sum;
}

/* A race: all add into one place. */
static void add_all(void *ctx, int lo, int hi) {
    struct layer *c = ctx;
    for (int i = lo; i < hi; i++) *c->y += c->x[i];
}

EXPORT(race) double race(int n, const double *x) {
    double sum = 0;
    struct layer c = {0, x, &sum, 0};
    brolga_par_for(add_all, &c, 0, n, 1);
    return sum;
}

/* A trap in a task: the one of this number divides by zero. */
static void divide(void *ctx, int lo, int hi) {
    struct layer *c = ctx;
    for (int i = lo; i < hi; i++) c->y[i] = c->x[100 / (c->m - i)];
}

EXPORT(trapped) double trapped(int n, const double *x, double *y, int at) {
    struct layer c = {0, x, y, at};
    brolga_par_for(divide, &c, 0, n, 1);
    return y[0];
}

/* Integers that become numbers: each task's own, and one that all of them read. */
struct counted {
    const double *x;
    const int *n;
    double *y;
};

static void count(void *ctx, int lo, int hi) {
    struct counted *c = ctx;
    for (int i = lo; i < hi; i++) c->y[i] = c->x[i] * c->n[i] + c->x[i] * c->n[0];
}

EXPORT(counts) double counts(int m, const double *x, const int *n, double *y) {
    struct counted c = {x, n, y};
    brolga_par_for(count, &c, 0, m, 1);
    double sum = 0;
    for (int i = 0; i < m; i++) sum += y[i] * y[i];
    return sum;
}

/* The same of the bits of doubles, which nothing is known of. */
static double scaled[64];

EXPORT(of_bits) double of_bits(int m, const double *x, double *y) {
    for (int i = 0; i < m; i++) scaled[i] = x[i] * 1.5;
    struct counted c = {x, (const int *)scaled + 1, y};
    brolga_par_for(count, &c, 0, m, 1);
    double sum = 0;
    for (int i = 0; i < m; i++) sum += y[i];
    return sum;
}
