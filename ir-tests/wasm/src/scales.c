/* Numbers scaled by powers of two as two libraries do it: by words of a union, and by all 64 bits.
 * Functions that leave an exponent behind a pointer, called in loops. */
#include "program.h"
#include "taken_apart.h"

typedef union {
    double number;
    unsigned long long bits;
} Double;

static double fraction_by_words(double x, int *power) {
    Words u = {x};
    int high = u.words.high, size = high & 0x7fffffff;
    *power = 0;
    if (size >= 0x7ff00000 || (size | u.words.low) == 0) return x;
    if (size < 0x00100000) {
        x *= 0x1p54;
        u.number = x;
        high = u.words.high;
        size = high & 0x7fffffff;
        *power = -54;
    }
    *power += (size >> 20) - 1022;
    u.number = x;
    u.words.high = (high & 0x800fffff) | 0x3fe00000;
    return u.number;
}

static double scaled_by_words(double x, int n) {
    Words u = {x};
    int high = u.words.high, power = (high & 0x7ff00000) >> 20;
    if (power == 0) {
        if (((high & 0x7fffffff) | u.words.low) == 0) return x;
        x *= 0x1p54;
        u.number = x;
        high = u.words.high;
        power = ((high & 0x7ff00000) >> 20) - 54;
    }
    if (power == 0x7ff) return x + x;
    power += n;
    if (power > 0x7fe) return __builtin_inf();
    if (power < -53) return 0;
    u.number = x;
    if (power > 0) {
        u.words.high = (high & 0x800fffff) | (power << 20);
        return u.number;
    }
    u.words.high = (high & 0x800fffff) | ((power + 54) << 20);
    return u.number * 0x1p-54;
}

static double fraction_by_bits(double x, int *power) {
    Double u = {x};
    int exponent = (u.bits >> 52) & 0x7ff;
    if (exponent == 0 && x != 0) {
        x = fraction_by_bits(x * 0x1p64, power);
        *power -= 64;
        return x;
    }
    if (exponent == 0 || exponent == 0x7ff) {
        *power = 0;
        return x;
    }
    *power = exponent - 0x3fe;
    u.bits = (u.bits & 0x800fffffffffffff) | 0x3fe0000000000000;
    return u.number;
}

static double scaled_by_bits(double x, int n) {
    Double u;
    if (n > 1023) {
        x *= 0x1p1023;
        n = n - 1023 > 1023 ? 1023 : n - 1023;
    } else if (n < -1022) {
        x *= 0x1p-969;
        n = n + 969 < -1022 ? -1022 : n + 969;
    }
    u.bits = (unsigned long long)(0x3ff + n) << 52;
    return x * u.number;
}

#define LOOPS(how) \
    EXPORT(fractions_##how) double fractions_##how(int n, const double *x) { \
        double sum = 0; \
        for (int i = 0; i < n; i++) { \
            int power; \
            double part = fraction_##how(x[i], &power); \
            sum += part * part * (power + 1); \
        } \
        return sum; \
    } \
    EXPORT(scaled_##how) double each_scaled_##how(int n, const double *x) { \
        double sum = 0; \
        for (int i = 0; i < n; i++) sum += scaled_##how(x[i], i) * x[i]; \
        return sum; \
    } \
    EXPORT(both_##how) double both_##how(int n, const double *x) { \
        double sum = 0; \
        for (int i = 0; i < n; i++) { \
            int power; \
            double part = fraction_##how(x[i], &power); \
            sum += scaled_##how(part * part, power); \
        } \
        return sum; \
    }
LOOPS(by_words)
LOOPS(by_bits)
