/* Adjoint of heat_loss.
 *
 * Stored: the temperatures of every step, each in a grid of its own, so that no step copies; all of their rows are in one
 * block. What flows between
 * two cells is computed again from these, with one division for each, as the program does. The conductivity between two
 * cells is the same in both directions, so each cell collects from its neighbours and writes to no other.
 */
#include "adjoint.h"

#include "../heat.c"

/* What a cell gathers from its neighbours. */
typedef struct {
    double sum;      /* what flows in, as in the program */
    double heat;     /* the same of the cotangents of temperatures */
    double material; /* cotangent of the conductivity here, but for the time */
} Gathered;

static void gather(Grid heat, Grid heat_bar, Grid conductivity, int i, int j, int k, int l, Gathered *out) {
    if (k < 0 || k >= heat.rows || l < 0 || l >= heat.columns)
        return;
    double here = conductivity.row[i][j], there = conductivity.row[k][l];
    double part = there / (here + there);
    double between = 2 * here * part;
    double apart = heat.row[k][l] - heat.row[i][j], apart_bar = heat_bar.row[k][l] - heat_bar.row[i][j];
    out->sum += between * apart;
    out->heat += between * apart_bar;
    out->material -= 2 * part * part * apart * apart_bar;
}

/* What reaches the time. */
static double advance_adjoint(Grid from, Grid conductivity, double time, Grid to_bar, Grid from_bar,
                              double *conductivity_bar) {
    double time_bar = 0;
    for (int i = 0; i < from.rows; i++)
        for (int j = 0; j < from.columns; j++) {
            Gathered all = {0, 0, 0};
            gather(from, to_bar, conductivity, i, j, i - 1, j, &all);
            gather(from, to_bar, conductivity, i, j, i + 1, j, &all);
            gather(from, to_bar, conductivity, i, j, i, j - 1, &all);
            gather(from, to_bar, conductivity, i, j, i, j + 1, &all);
            time_bar += to_bar.row[i][j] * all.sum;
            from_bar.row[i][j] = to_bar.row[i][j] + time * all.heat;
            conductivity_bar[i * from.columns + j] += time * all.material;
        }
    return time_bar;
}

ADJOINT(heat_loss_adjoint)
void heat_loss_adjoint(int rows, int columns, int steps, double time, const double *initial,
                       const double *conductivity, const double *observed, double *time_bar, double *initial_bar,
                       double *conductivity_bar, double *observed_bar, double seed) {
    Grid material = allocate(rows, columns), now = allocate(rows, columns), next = allocate(rows, columns);
    double *cells = malloc(sizeof(double) * columns * rows * (steps + 1));
    double **row = malloc(sizeof(double *) * rows * (steps + 1));
    Grid *history = malloc(sizeof(Grid) * (steps + 1));
    for (int i = 0; i < rows * (steps + 1); i++)
        row[i] = cells + i * columns;
    for (int step = 0; step <= steps; step++)
        history[step] = (Grid){rows, columns, row + rows * step};
    for (int i = 0; i < rows; i++) {
        memcpy(history[0].row[i], initial + i * columns, sizeof(double) * columns);
        memcpy(material.row[i], conductivity + i * columns, sizeof(double) * columns);
    }
    for (int step = 0; step < steps; step++)
        advance(history[step], history[step + 1], material, time);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double error_bar = seed * (history[steps].row[i][j] - observed[i * columns + j]);
            now.row[i][j] = error_bar;
            observed_bar[i * columns + j] -= error_bar;
        }
    for (int step = steps - 1; step >= 0; step--) {
        *time_bar += advance_adjoint(history[step], material, time, now, next, conductivity_bar);
        Grid other = now;
        now = next;
        next = other;
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            initial_bar[i * columns + j] += now.row[i][j];
    free(history);
    free(row);
    free(cells);
    release(next);
    release(now);
    release(material);
}
