/* Floats made by arithmetic on bits: digits that are rounded off, and numbers drawn at random. */
#include <stdint.h>
#include <string.h>

#include "program.h"

static uint64_t bits(double x) {
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static double number(uint64_t b) {
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* To the nearest number with forty digits less, away from zero: sum of x_i times itself, rounded. */
EXPORT(shortened) double shortened(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        uint64_t b = (bits(x[i]) + 0x1000) & ~0x1fffull;
        sum += number(b) * x[i];
    }
    return sum;
}

/* To the nearest half of a single, ties to even: whether a digit is added depends on a digit. */
EXPORT(halved) float halved(const float *x) {
    uint32_t b;
    memcpy(&b, x, sizeof b);
    b += 0x7fff + ((b >> 16) & 1);
    b &= 0xffff0000u;
    float y;
    memcpy(&y, &b, sizeof y);
    return y * y;
}

/* The same of an argument. */
static float even(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    b += 0x7fff + ((b >> 16) & 1);
    b &= 0xffff0000u;
    memcpy(&x, &b, sizeof x);
    return x;
}

EXPORT(halved_value) float halved_value(float x) {
    float y = even(x);
    return y * y;
}

/* A random generator, whose state is a number. */
static uint64_t state;

static double drawn(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return number((state >> 12) | 0x3ff0000000000000ull) - 1;
}

EXPORT(weighed) double weighed(const double *x, int n) {
    double sum = 0;
    state = 88172645463325252ull;
    for (int i = 0; i < n; i++) sum += drawn() * x[i] * x[i];
    return sum;
}
