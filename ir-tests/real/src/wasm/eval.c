/* An expression-tree interpreter: recursion through a jump table. A node is three numbers: an operation and two operands, which
 * are children (node numbers), a variable number, or a constant, all kept as floats like everything else in the memory. */
#include "real.h"

enum { CONSTANT, VARIABLE, ADD, SUBTRACT, MULTIPLY, DIVIDE, EXPONENTIAL, POWER };

static inline int rounded(real x) { return (int)(x + (real)0.5); }

EXPORT real eval(const real *nodes, int at, const real *vars) {
    const real *node = nodes + 3 * at;
    int left = rounded(node[1]), right = rounded(node[2]);
    switch (rounded(node[0])) {
    case CONSTANT:
        return node[1];
    case VARIABLE:
        return vars[left];
    case ADD:
        return eval(nodes, left, vars) + eval(nodes, right, vars);
    case SUBTRACT:
        return eval(nodes, left, vars) - eval(nodes, right, vars);
    case MULTIPLY:
        return eval(nodes, left, vars) * eval(nodes, right, vars);
    case DIVIDE:
        return eval(nodes, left, vars) / eval(nodes, right, vars);
    case EXPONENTIAL:
        return R(exp)(eval(nodes, left, vars));
    case POWER: {
        real base = eval(nodes, left, vars), power = 1;
        for (int i = 0; i < right; i++)
            power *= base;
        return power;
    }
    default:
        __builtin_trap();
    }
}
