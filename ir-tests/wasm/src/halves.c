/* Logarithms and powers as FreeBSD's library has them, which take the upper half of a double for an integer of its own: something is added to it, another exponent is put in, and it
 * is put beside the lower half again. Written anew, with series of their own, and only as they are when they are part of their callers: none has the name of one of C's.
 */
#include "program.h"
#include "words.h"

PART uint32_t upper(double x) {
    return bits(x) >> 32;
}

PART double with_upper(double x, uint32_t half) {
    return number((uint64_t)half << 32 | (bits(x) & 0xffffffff));
}

/* log((1 + s) / (1 - s)) / s, but for the first term. */
PART double series(double s) {
    double z = s * s, sum = 0;
    for (int n = 23; n > 2; n -= 2)
        sum = sum * z + 2.0 / n;
    return z * sum;
}

/* x between the roots of a half and of two, times 2^k. Subnormal numbers are scaled first. */
PART double logarithm(double x) {
    uint64_t whole = bits(x);
    uint32_t half = whole >> 32;
    int k = 0;
    if (half < 0x00100000 || half >> 31) {
        if (whole << 1 == 0)
            return -1 / (x * x);
        if (half >> 31)
            return (x - x) / 0.0;
        k -= 54;
        x *= 0x1p54;
        whole = bits(x);
        half = whole >> 32;
    } else if (half >= 0x7ff00000) {
        return x;
    } else if (half == 0x3ff00000 && whole << 32 == 0) {
        return 0;
    }
    half += 0x3ff00000 - 0x3fe6a09e;
    k += (int)(half >> 20) - 0x3ff;
    half = (half & 0x000fffff) + 0x3fe6a09e;
    x = number((uint64_t)half << 32 | (whole & 0xffffffff));
    double f = x - 1, s = f / (2 + f);
    return 2 * s + s * series(s) + k * 0.69314718055994531;
}

/* log(1 + x), with what the sum has lost. */
PART double of_one_plus(double x) {
    uint32_t half = upper(x);
    double f = x, lost = 0;
    int k = 1;
    if (half < 0x3fda827a || half >> 31) {
        if (half >= 0xbff00000)
            return x == -1 ? x / 0.0 : (x - x) / 0.0;
        if (half << 1 < 0x3ca00000 << 1)
            return x;
        if (half <= 0xbfd2bec4)
            k = 0;
    }
    if (k) {
        double sum = 1 + x;
        half = upper(sum);
        half += 0x3ff00000 - 0x3fe6a09e;
        k = (int)(half >> 20) - 0x3ff;
        if (k < 54)
            lost = (k >= 2 ? 1 - (sum - x) : x - (sum - 1)) / sum;
        half = (half & 0x000fffff) + 0x3fe6a09e;
        f = with_upper(sum, half) - 1;
    }
    double s = f / (2 + f);
    return 2 * s + s * series(s) + lost + k * 0.69314718055994531;
}

/* x^y for positive x: y log x, split into a whole number of twos and the rest, whose exponential gets an exponent. */
PART double power(double x, double y) {
    uint32_t half = upper(x);
    int n = 0;
    if (half < 0x00100000) {
        x *= 0x1p53;
        n -= 53;
        half = upper(x);
    }
    n += (int)(half >> 20) - 0x3ff;
    uint32_t fraction = half & 0x000fffff;
    half = fraction | 0x3ff00000;
    if (fraction >= 0xbb67a) {
        n += 1;
        half -= 0x00100000;
    }
    x = with_upper(x, half);
    double s = (x - 1) / (x + 1), logs = 2 * s + s * series(s);
    double twos = y * (logs * 1.4426950408889634 + n);
    int k = (int)(twos + (twos < 0 ? -0.5 : 0.5));
    double r = (y * logs - (k - y * n) * 0.69314718055994531), sum = 1;
    for (int i = 18; i > 0; i--)
        sum = 1 + r * sum / i;
    return with_upper(sum, upper(sum) + ((uint32_t)k << 20));
}

/* Entropy of so many numbers, and the like of their neighbours. */
EXPORT(entropies)
double entropies(int n, const double *x) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * logarithm(x[i]) - of_one_plus(x[i] / 2) * of_one_plus(-x[i] / 64);
    return sum;
}

EXPORT(powers)
double powers(int n, const double *x, double y) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += power(x[i], y);
    return sum;
}
