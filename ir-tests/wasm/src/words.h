/* The bits of a double as an integer, as a part of whoever asks, without optimisation as well. */
#ifndef WORDS_H
#define WORDS_H

#include <stdint.h>

#define PART static inline __attribute__((always_inline))

PART uint64_t bits(double x) {
    union {
        double x;
        uint64_t bits;
    } u = {x};
    return u.bits;
}

PART double number(uint64_t bits) {
    union {
        uint64_t bits;
        double x;
    } u = {bits};
    return u.x;
}

#endif
