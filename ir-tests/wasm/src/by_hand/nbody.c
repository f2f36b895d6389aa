/* Adjoints of leapfrog and nbody_loss.
 *
 * Stored for each step: velocities before the kick, and positions where it is (6 n numbers). Distances and pulls are
 * computed again from these; a root and a division for a pair of bodies.
 */
#include "adjoint.h"

#include "../nbody.c"
#include <stdlib.h>
#include <string.h>

/* leapfrog, which leaves velocities and positions of every step behind. */
static double *record(int n, double *positions, double *velocities, const double *masses, double constant, double time,
                      int steps) {
    size_t bytes = sizeof(double) * 3 * n;
    double *history = malloc(2 * bytes * steps), *at = history;
    for (int step = 0; step < steps; step++) {
        memcpy(at, velocities, bytes);
        drift(n, positions, velocities, time / 2);
        memcpy(at + 3 * n, positions, bytes);
        kick(n, positions, velocities, masses, constant, time);
        drift(n, positions, velocities, time / 2);
        at += 6 * n;
    }
    return history;
}

/* What reaches the time. */
static double drift_adjoint(int n, const double *velocities, double time, const double *positions_bar,
                            double *velocities_bar) {
    double sum = 0;
    for (int i = 0; i < 3 * n; i++) {
        sum += positions_bar[i] * velocities[i];
        velocities_bar[i] += time * positions_bar[i];
    }
    return sum;
}

/* What reaches the product of constant and time. */
static double kick_adjoint(int n, const double *positions, const double *masses, double constant, double time,
                           double *positions_bar, const double *velocities_bar, double *masses_bar) {
    double sum = 0;
    for (int j = 0; j < n; j++) {
        double here_bar[3] = {0, 0, 0};
        double velocity_bar[3] = {velocities_bar[3 * j], velocities_bar[3 * j + 1], velocities_bar[3 * j + 2]};
        for (int k = 0; k < n; k++) {
            if (j == k)
                continue;
            double apart[3], squared = 0, pull_bar = 0;
            for (int axis = 0; axis < 3; axis++) {
                apart[axis] = positions[3 * k + axis] - positions[3 * j + axis];
                squared += apart[axis] * apart[axis];
                pull_bar += apart[axis] * velocity_bar[axis];
            }
            double root = sqrt(squared), inverse = 1 / (squared * root);
            double pull = time * constant * masses[k] * inverse;
            sum += pull_bar * masses[k] * inverse;
            masses_bar[k] += time * constant * pull_bar * inverse;
            double twice = -3 * pull * pull_bar * inverse * root;
            for (int axis = 0; axis < 3; axis++) {
                double apart_bar = pull * velocity_bar[axis] + twice * apart[axis];
                positions_bar[3 * k + axis] += apart_bar;
                here_bar[axis] += apart_bar;
            }
        }
        for (int axis = 0; axis < 3; axis++)
            positions_bar[3 * j + axis] -= here_bar[axis];
    }
    return sum;
}

/* Frees the history. */
static void back(int n, double *history, const double *velocities, const double *masses, double constant, double time,
                 int steps, double *positions_bar, double *velocities_bar, double *masses_bar, double *constant_bar,
                 double *time_bar) {
    double half = 0, product = 0;
    for (int step = steps - 1; step >= 0; step--) {
        const double *before = history + 6 * n * step;
        half += drift_adjoint(n, velocities, time / 2, positions_bar, velocities_bar);
        product += kick_adjoint(n, before + 3 * n, masses, constant, time, positions_bar, velocities_bar, masses_bar);
        half += drift_adjoint(n, before, time / 2, positions_bar, velocities_bar);
        velocities = before;
    }
    *constant_bar += product * time;
    *time_bar += product * constant + half / 2;
    free(history);
}

ADJOINT(leapfrog_adjoint)
void leapfrog_adjoint(int n, double *positions, double *velocities, const double *masses, double constant, double time,
                      int steps, double *positions_bar, double *velocities_bar, double *masses_bar,
                      double *constant_bar, double *time_bar) {
    double *history = record(n, positions, velocities, masses, constant, time, steps);
    back(n, history, velocities, masses, constant, time, steps, positions_bar, velocities_bar, masses_bar,
         constant_bar, time_bar);
}

ADJOINT(nbody_loss_adjoint)
void nbody_loss_adjoint(int n, double *positions, double *velocities, const double *masses, double constant,
                        double time, int steps, double *positions_bar, double *velocities_bar, double *masses_bar,
                        double *constant_bar, double *time_bar, double seed) {
    double *history = record(n, positions, velocities, masses, constant, time, steps);
    for (int axis = 0; axis < 3; axis++) {
        double apart_bar = 2 * seed * (positions[3 + axis] - positions[6 + axis]);
        positions_bar[3 + axis] += apart_bar;
        positions_bar[6 + axis] -= apart_bar;
    }
    back(n, history, velocities, masses, constant, time, steps, positions_bar, velocities_bar, masses_bar,
         constant_bar, time_bar);
}
