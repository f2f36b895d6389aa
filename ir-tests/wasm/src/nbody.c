/* Bodies under gravity: drift, kick, drift. Positions and velocities are updated in place. */
#include "program.h"

static void drift(int n, double *positions, const double *velocities, double time) {
    for (int i = 0; i < 3 * n; i++)
        positions[i] += time * velocities[i];
}

static void kick(int n, const double *positions, double *velocities, const double *masses, double constant,
                 double time) {
    for (int j = 0; j < n; j++)
        for (int k = 0; k < n; k++) {
            if (j == k)
                continue;
            double apart[3], squared = 0;
            for (int axis = 0; axis < 3; axis++) {
                apart[axis] = positions[3 * k + axis] - positions[3 * j + axis];
                squared += apart[axis] * apart[axis];
            }
            double pull = time * constant * masses[k] / (squared * sqrt(squared));
            for (int axis = 0; axis < 3; axis++)
                velocities[3 * j + axis] += pull * apart[axis];
        }
}

/* positions[n][3], velocities[n][3], masses[n]. */
EXPORT(leapfrog)
void leapfrog(int n, double *positions, double *velocities, const double *masses, double constant, double time,
              int steps) {
    for (int step = 0; step < steps; step++) {
        drift(n, positions, velocities, time / 2);
        kick(n, positions, velocities, masses, constant, time);
        drift(n, positions, velocities, time / 2);
    }
}

/* Squared distance of bodies 1 and 2 after so many steps. */
EXPORT(nbody_loss)
double nbody_loss(int n, double *positions, double *velocities, const double *masses, double constant, double time,
                  int steps) {
    leapfrog(n, positions, velocities, masses, constant, time, steps);
    double squared = 0;
    for (int axis = 0; axis < 3; axis++) {
        double apart = positions[3 + axis] - positions[6 + axis];
        squared += apart * apart;
    }
    return squared;
}
