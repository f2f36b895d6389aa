/* An interpreter of bytecode for a stack machine, one `switch` in a loop. Numbers live on a stack, in variables and in
 * constants; the machine can jump, call and return.
 */
#include "program.h"

enum {
    HALT,     /*            the result is on top */
    CONSTANT, /* n          push constant n */
    LOAD,     /* n          push variable n */
    STORE,    /* n          pop into variable n */
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    NEGATE,
    DUPLICATE,
    SWAP,
    SINE,
    EXPONENTIAL,
    LOGARITHM,
    ROOT,
    JUMP,          /* to         */
    JUMP_POSITIVE, /* to         pop; jump if it is greater than zero */
    CALL,          /* to         */
    RETURN,
};

enum { DEPTH = 64, VARIABLES = 8 };

/* code: bytes, jumps are absolute. inputs become the first variables. Traps at what is not an instruction. */
EXPORT(run)
double run(const unsigned char *code, const double *constants, const double *inputs, int n) {
    double stack[DEPTH], variables[VARIABLES] = {0};
    int callers[DEPTH], top = 0, depth = 0, at = 0;
    for (int i = 0; i < n; i++)
        variables[i] = inputs[i];
    for (;;) {
        if (top > DEPTH - 2 || depth > DEPTH - 2)
            __builtin_trap();
        switch (code[at++]) {
        case HALT:
            return stack[top - 1];
        case CONSTANT:
            stack[top++] = constants[code[at++]];
            break;
        case LOAD:
            stack[top++] = variables[code[at++] % VARIABLES];
            break;
        case STORE:
            variables[code[at++] % VARIABLES] = stack[--top];
            break;
        case ADD:
            top--;
            stack[top - 1] += stack[top];
            break;
        case SUBTRACT:
            top--;
            stack[top - 1] -= stack[top];
            break;
        case MULTIPLY:
            top--;
            stack[top - 1] *= stack[top];
            break;
        case DIVIDE:
            top--;
            stack[top - 1] /= stack[top];
            break;
        case NEGATE:
            stack[top - 1] = -stack[top - 1];
            break;
        case DUPLICATE:
            stack[top] = stack[top - 1];
            top++;
            break;
        case SWAP: {
            double kept = stack[top - 1];
            stack[top - 1] = stack[top - 2];
            stack[top - 2] = kept;
            break;
        }
        case SINE:
            stack[top - 1] = sin(stack[top - 1]);
            break;
        case EXPONENTIAL:
            stack[top - 1] = exp(stack[top - 1]);
            break;
        case LOGARITHM:
            stack[top - 1] = log(stack[top - 1]);
            break;
        case ROOT:
            stack[top - 1] = sqrt(stack[top - 1]);
            break;
        case JUMP:
            at = code[at];
            break;
        case JUMP_POSITIVE:
            at = stack[--top] > 0 ? code[at] : at + 1;
            break;
        case CALL:
            callers[depth++] = at + 1;
            at = code[at];
            break;
        case RETURN:
            at = callers[--depth];
            break;
        default:
            __builtin_trap();
        }
    }
}
