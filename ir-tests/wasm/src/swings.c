/* Four pendulums as time loops: a number of steps, and steps until one of them is low. The state is
   a struct on the stack. */
#define BROLGA
#include "brolga.h"

struct swings {
    double angle[4], speed[4];
};

static struct swings begun(const double *angles) {
    struct swings s;
    for (int k = 0; k < 4; k++) {
        s.angle[k] = angles[k];
        s.speed[k] = 0;
    }
    return s;
}

static double energy(const struct swings *s) {
    double sum = 0;
    for (int k = 0; k < 4; k++) sum += s->angle[k] * s->angle[k] + 0.5 * s->speed[k] * s->speed[k];
    return sum;
}

static void swing(void *state, const void *params, int i) {
    struct swings *s = state;
    const double *lengths = params;
    /* They are pushed at the beginning. */
    double push = i < 10 ? 0.25 : 0;
    for (int k = 0; k < 4; k++) {
        double a = s->angle[k];
        s->speed[k] += 0.01 * (push - lengths[k] * (a - a * a * a / 6));
    }
    for (int k = 0; k < 4; k++) s->angle[k] += 0.01 * s->speed[k];
}

static int swing_down(void *state, const void *params, int i) {
    swing(state, params, i);
    return ((struct swings *)state)->angle[0] > 0.5;
}

__attribute__((export_name("swings"))) double swings(const double *angles, const double *lengths, int n) {
    struct swings s = begun(angles);
    brolga_time_loop(swing, &s, sizeof s, lengths, n);
    return energy(&s);
}

__attribute__((export_name("swings_down"))) double swings_down(const double *angles, const double *lengths, int n) {
    struct swings s = begun(angles);
    int steps = brolga_while_loop(swing_down, &s, sizeof s, lengths, n);
    return energy(&s) + steps;
}

static void hour(void *state, const void *params, int i) {
    (void)i;
    brolga_time_loop(swing, state, sizeof(struct swings), params, 20);
}

__attribute__((export_name("swings_by_the_hour"))) double swings_by_the_hour(const double *angles,
                                                                               const double *lengths, int n) {
    struct swings s = begun(angles);
    brolga_time_loop(hour, &s, sizeof s, lengths, n);
    return energy(&s);
}
