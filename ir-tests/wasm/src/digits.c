/* Floats whose last digits are left out, or rounded off, while they lie in memory as integers: by words, by halves, by
 * bytes, in packed records. And floats in the other order of bytes. */
#include <stdint.h>

#include "program.h"

#define copy(to, from) __builtin_memcpy(to, from, sizeof *(to))

static uint64_t bits(const double *x) {
    uint64_t b;
    copy(&b, (const uint64_t *)x);
    return b;
}

static uint32_t word(const float *x) {
    uint32_t b;
    copy(&b, (const uint32_t *)x);
    return b;
}

/* To the nearest of those that have half of the bits, ties to even. */
static uint32_t halved(uint32_t b) { return (b + 0x7fff + (b >> 16 & 1)) & 0xffff0000u; }

static double squares(const double *y, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += y[i] * y[i];
    return sum;
}

static float singles(const float *y, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += y[i] * y[i];
    return sum;
}

/* y_i = x_i without the lower word. */
EXPORT(upper) double upper(double *y, const double *x, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t b = bits(&x[i]) & ~0xffffffffull;
        copy((uint64_t *)&y[i], &b);
    }
    return squares(y, n);
}

/* The same where only the upper word is read. */
EXPORT(words) double words(double *y, const double *x, int n) {
    for (int i = 0; i < n; i++) {
        ((uint32_t *)y)[2 * i] = 0;
        ((uint32_t *)y)[2 * i + 1] = ((const uint32_t *)x)[2 * i + 1];
    }
    return squares(y, n);
}

/* The same where something else stands in the lower word. */
EXPORT(tagged) double tagged(double *y, const double *x, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t b = (bits(&x[i]) & ~0xffffffffull) | 0x12345;
        copy((uint64_t *)&y[i], &b);
    }
    return squares(y, n);
}

/* The upper words lie in an array of their own meanwhile. */
EXPORT(apart) double apart(uint32_t *h, const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) h[i] = (uint32_t)(bits(&x[i]) >> 32);
    for (int i = 0; i < n; i++) {
        uint64_t b = (uint64_t)h[i] << 32;
        double y;
        copy((uint64_t *)&y, &b);
        sum += y * y;
    }
    return sum;
}

/* 25 digits of the mantissa are left: no whole bytes. */
EXPORT(some) double some(double *y, const double *x, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t b = bits(&x[i]) & 0xfffffffff8000000ull;
        copy((uint64_t *)&y[i], &b);
    }
    return squares(y, n);
}

/* The middle digit of the lower word is the last one that counts, rounded. */
EXPORT(nearest) double nearest(double *y, const double *x, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t b = bits(&x[i]);
        b += 0x7fff + (b >> 16 & 1);
        b &= ~0xffffull;
        copy((uint64_t *)&y[i], &b);
    }
    return squares(y, n);
}

/* Singles with half of the bits, as singles. */
EXPORT(short_singles) float short_singles(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t b = halved(word(&x[i]));
        copy((uint32_t *)&y[i], &b);
    }
    return singles(y, n);
}

/* Half of the bits, up or down at random. */
EXPORT(drawn) float drawn(const float *x, int n) {
    uint32_t r = 12345;
    float sum = 0;
    for (int i = 0; i < n; i++) {
        r = r * 1664525u + 1013904223u;
        uint32_t b = (word(&x[i]) + (r & 0xffff)) & 0xffff0000u;
        float y;
        copy((uint32_t *)&y, &b);
        sum += y * y;
    }
    return sum;
}

/* To the nearest, kept as halves: `bfloat16`. */
EXPORT(halves) float halves(uint16_t *h, const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) h[i] = (uint16_t)(halved(word(&x[i])) >> 16);
    for (int i = 0; i < n; i++) {
        uint32_t b = (uint32_t)h[i] << 16;
        float y;
        copy((uint32_t *)&y, &b);
        sum += y * y;
    }
    return sum;
}

/* Without rounding, by a shift there and back. */
EXPORT(shifted) float shifted(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t b = word(&x[i]) >> 16 << 16;
        copy((uint32_t *)&y[i], &b);
    }
    return singles(y, n);
}

/* The two upper bytes, one by one. */
EXPORT(two_bytes) float two_bytes(uint8_t *h, const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) {
        h[2 * i] = ((const uint8_t *)&x[i])[2];
        h[2 * i + 1] = ((const uint8_t *)&x[i])[3];
    }
    for (int i = 0; i < n; i++) {
        uint8_t b[4] = {0, 0, h[2 * i], h[2 * i + 1]};
        float y;
        copy((uint32_t *)&y, (uint32_t *)b);
        sum += y * y;
    }
    return sum;
}

/* In the other order of bytes and back, in place. */
EXPORT(swapped) double swapped(double *x, int n) {
    uint64_t *b = (uint64_t *)x;
    for (int i = 0; i < n; i++) x[i] = x[i] * x[i];
    for (int i = 0; i < n; i++) b[i] = __builtin_bswap64(b[i]);
    for (int i = 0; i < n; i++) b[i] = __builtin_bswap64(b[i]);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * (i + 1);
    return sum;
}

/* The same by way of another array. */
EXPORT(sent) float sent(uint32_t *b, const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) b[i] = __builtin_bswap32(word(&x[i]));
    for (int i = 0; i < n; i++) {
        uint32_t w = __builtin_bswap32(b[i]);
        float y;
        copy((uint32_t *)&y, &w);
        sum += y * y * (float)(i + 1);
    }
    return sum;
}

/* Halves of singles, each in the other order. */
EXPORT(by_halves) float by_halves(uint16_t *h, const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < 2 * n; i++) {
        uint16_t w = ((const uint16_t *)x)[i];
        h[i] = (uint16_t)(w << 8 | w >> 8);
    }
    for (int i = 0; i < n; i++) {
        uint16_t w[2];
        for (int k = 0; k < 2; k++) w[k] = (uint16_t)(h[2 * i + k] << 8 | h[2 * i + k] >> 8);
        float y;
        copy((uint32_t *)&y, (uint32_t *)w);
        sum += y * y;
    }
    return sum;
}

struct record {
    int tag;
    double x;
} __attribute__((packed));

/* Doubles of packed records, without the lower word. */
EXPORT(packed) double packed(const double *x, int n) {
    struct record r[8];
    for (int i = 0; i < n; i++) {
        r[i].tag = i + 1;
        r[i].x = x[i] * x[i];
    }
    for (int i = 0; i < n; i++) {
        uint64_t b;
        __builtin_memcpy(&b, &r[i].x, sizeof b);
        b &= ~0xffffffffull;
        __builtin_memcpy(&r[i].x, &b, sizeof b);
    }
    double sum = 0;
    for (int i = 0; i < n; i++) sum += r[i].x * r[i].tag;
    return sum;
}

/* The last digits of one number above those of another: no number, and none that has lost some. */
EXPORT(mixed) double mixed(double *y, const double *x) {
    uint64_t b = (bits(&x[0]) & ~0xffffffffull) | (uint32_t)bits(&x[1]);
    copy((uint64_t *)y, &b);
    return y[0] * y[0];
}

/* The exponent alone is no number without its digits. */
EXPORT(exponent) double exponent(double *y, const double *x) {
    uint64_t b = bits(x) & 0xff00000000000000ull;
    b |= 0xf0000000000000ull;
    copy((uint64_t *)y, &b);
    return y[0] * y[0];
}
