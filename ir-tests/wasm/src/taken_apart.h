/* A double, and its two words, in the order of wasm32. */
#ifndef TAKEN_APART_H
#define TAKEN_APART_H

typedef union {
    double number;
    struct {
        unsigned low, high;
    } words;
} Words;

#endif
