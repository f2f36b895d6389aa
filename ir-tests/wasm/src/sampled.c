/* Integers of memory that become numbers, in memory where floats lie, too: states of random generators, counts,
   moments in nanoseconds, halves of doubles. Many of them are as large as a float's bits are. */
#include "program.h"
#include <stdint.h>
#define copy __builtin_memcpy

#define MOST 16

/* xorshift, with its state in memory. */
static uint32_t state;

static float random_number(void) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return (float)state * 0x1p-32f;
}

EXPORT(weighted) float weighted(float x, int n) {
    state = 2463534242u;
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x * random_number();
    return sum;
}

/* The Mersenne twister, seeded by another function than that which draws. */
static uint32_t words[624];
static int next;

static void seed(uint32_t s) {
    words[0] = s;
    for (next = 1; next < 624; next++) words[next] = 1812433253u * (words[next - 1] ^ (words[next - 1] >> 30)) + (uint32_t)next;
}

static uint32_t draw(void) {
    if (next >= 624) {
        for (int k = 0; k < 624; k++) {
            uint32_t y = (words[k] & 0x80000000u) | (words[(k + 1) % 624] & 0x7fffffffu);
            words[k] = words[(k + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        next = 0;
    }
    uint32_t y = words[next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

EXPORT(twisted) double twisted(double x, int n) {
    static double drawn[MOST];
    seed(5489);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        drawn[i % MOST] = x * (draw() / 4294967296.0);
        sum += drawn[i % MOST] * drawn[i * 7 % MOST];
    }
    return sum;
}

/* Sums and counts in one structure. */
EXPORT(mean) double mean(const double *x, int n) {
    struct { double sum; int64_t count; } all = {0, 0};
    for (int i = 0; i < n; i++) {
        all.sum += x[i];
        all.count += 3000000;
    }
    return all.sum / (double)all.count;
}

struct event { int64_t nanoseconds; double size; };

EXPORT(timed) double timed(const double *x, int n) {
    static struct event events[MOST];
    for (int i = 0; i < n; i++) {
        events[i].nanoseconds = INT64_C(1700000000000000000) + i * INT64_C(1000000000);
        events[i].size = x[i];
    }
    for (int i = 1; i < n; i++) {
        struct event t = events[i];
        events[i] = events[i - 1];
        events[i - 1] = t;
    }
    double sum = 0;
    for (int i = 1; i < n; i++) sum += events[i].size * (double)(events[i].nanoseconds - events[0].nanoseconds) * 1e-9;
    return sum;
}

/* An integer and a single in one word. */
struct pair { float weight; int32_t count; };

EXPORT(paired) float paired(float x) {
    static struct pair from[4], to[4];
    for (int i = 0; i < 4; i++) {
        from[i].weight = x * (float)i;
        from[i].count = 5000000 * (i + 1);
    }
    for (int i = 0; i < 4; i++) to[3 - i] = from[i];
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += to[i].weight * (float)to[i].count * 1e-6f;
    return sum;
}

/* Upper and lower halves in two arrays. */
EXPORT(halved) double halved(const double *x, int n) {
    static uint32_t high[MOST], low[MOST];
    for (int i = 0; i < n; i++) {
        uint64_t bits;
        copy(&bits, x + i, sizeof bits);
        high[i] = (uint32_t)(bits >> 32);
        low[i] = (uint32_t)bits;
    }
    double sum = 0;
    for (int i = 0; i < n; i++) {
        uint64_t bits = (uint64_t)high[n - 1 - i] << 32 | low[n - 1 - i];
        double number;
        copy(&number, &bits, sizeof number);
        sum += number * number * i;
    }
    return sum;
}
