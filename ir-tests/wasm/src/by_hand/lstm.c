/* Adjoint of lstm_objective.
 *
 * Stored for each step: the state that it leaves, three gates, the change and the squashed cell of every unit (7 numbers),
 * and the cotangents of the prediction, which are known at once. Inputs and what follows from the state by a
 * multiplication are computed again; no exponential is.
 */
#include "adjoint.h"

#include "../lstm.c"

enum { FORGET, INGATE, OUTGATE, CHANGE, SQUASHED, KEPT };

/* layer, from one state to another. kept[KEPT][width]. */
static void record(int width, const double *weights, const double *biases, const double *hidden, const double *cell,
                   const double *input, double *next_hidden, double *next_cell, double *kept) {
    for (int i = 0; i < width; i++) {
        double forget = sigmoid(input[i] * weights[i] + biases[i]);
        double ingate = sigmoid(hidden[i] * weights[width + i] + biases[width + i]);
        double outgate = sigmoid(input[i] * weights[2 * width + i] + biases[2 * width + i]);
        double change = tanh(hidden[i] * weights[3 * width + i] + biases[3 * width + i]);
        next_cell[i] = cell[i] * forget + ingate * change;
        double squashed = tanh(next_cell[i]);
        next_hidden[i] = outgate * squashed;
        kept[FORGET * width + i] = forget;
        kept[INGATE * width + i] = ingate;
        kept[OUTGATE * width + i] = outgate;
        kept[CHANGE * width + i] = change;
        kept[SQUASHED * width + i] = squashed;
    }
}

/* Cotangents of the state are replaced. Those of what the layer above has read come in input_bar, and those of what this
 * one has read go out there.
 */
static void layer_adjoint(int width, const double *weights, const double *hidden, const double *cell,
                          const double *input, const double *kept, double *weights_bar, double *biases_bar,
                          double *hidden_bar, double *cell_bar, double *input_bar) {
    for (int i = 0; i < width; i++) {
        double forget = kept[FORGET * width + i], ingate = kept[INGATE * width + i];
        double outgate = kept[OUTGATE * width + i], change = kept[CHANGE * width + i];
        double squashed = kept[SQUASHED * width + i];
        double out_bar = hidden_bar[i] + input_bar[i];
        double inside_bar = cell_bar[i] + out_bar * outgate * (1 - squashed * squashed);
        double forget_bar = inside_bar * cell[i] * forget * (1 - forget);
        double ingate_bar = inside_bar * change * ingate * (1 - ingate);
        double outgate_bar = out_bar * squashed * outgate * (1 - outgate);
        double change_bar = inside_bar * ingate * (1 - change * change);
        weights_bar[i] += forget_bar * input[i];
        weights_bar[width + i] += ingate_bar * hidden[i];
        weights_bar[2 * width + i] += outgate_bar * input[i];
        weights_bar[3 * width + i] += change_bar * hidden[i];
        biases_bar[i] += forget_bar;
        biases_bar[width + i] += ingate_bar;
        biases_bar[2 * width + i] += outgate_bar;
        biases_bar[3 * width + i] += change_bar;
        input_bar[i] = forget_bar * weights[i] + outgate_bar * weights[2 * width + i];
        hidden_bar[i] = ingate_bar * weights[width + i] + change_bar * weights[3 * width + i];
        cell_bar[i] = inside_bar * forget;
    }
}

ADJOINT(lstm_objective_adjoint)
void lstm_objective_adjoint(int layers, int length, int width, const double *main, const double *extra,
                            const double *state, const double *sequence, double *main_bar, double *extra_bar,
                            double *state_bar, double *sequence_bar, double seed) {
    int steps = length - 1, size = 2 * layers * width;
    double *states = malloc(sizeof(double) * size * length);
    double *kept = malloc(sizeof(double) * KEPT * layers * width * steps);
    double *predictions_bar = malloc(sizeof(double) * width * steps);
    double *scaled = malloc(sizeof(double) * width), *prediction = malloc(sizeof(double) * width);
    double scale = -seed / (width * steps);
    memcpy(states, state, sizeof(double) * size);
    for (int t = 0; t < steps; t++) {
        const double *x = sequence + t * width, *y = x + width, *input = scaled;
        const double *before = states + t * size;
        double *after = states + (t + 1) * size;
        for (int i = 0; i < width; i++)
            scaled[i] = x[i] * extra[i];
        for (int l = 0; l < layers; l++) {
            const double *weights = main + 8 * width * l, *hidden = before + 2 * width * l;
            double *next = after + 2 * width * l;
            record(width, weights, weights + 4 * width, hidden, hidden + width, input, next, next + width,
                   kept + KEPT * width * (layers * t + l));
            input = next;
        }
        double sum = 2, all = 0;
        double *prediction_bar = predictions_bar + t * width;
        for (int i = 0; i < width; i++) {
            prediction[i] = input[i] * extra[width + i] + extra[2 * width + i];
            prediction_bar[i] = exp(prediction[i]);
            sum += prediction_bar[i];
            all += y[i];
        }
        double normal = log(sum), share = all / sum;
        for (int i = 0; i < width; i++) {
            prediction_bar[i] = scale * (y[i] - share * prediction_bar[i]);
            sequence_bar[(t + 1) * width + i] += scale * (prediction[i] - normal);
        }
    }
    double *current_bar = calloc(size, sizeof(double)), *input_bar = malloc(sizeof(double) * width);
    for (int t = steps - 1; t >= 0; t--) {
        const double *x = sequence + t * width, *prediction_bar = predictions_bar + t * width;
        const double *before = states + t * size, *after = before + size;
        for (int i = 0; i < width; i++)
            scaled[i] = x[i] * extra[i];
        const double *top = layers ? after + 2 * width * (layers - 1) : scaled;
        for (int i = 0; i < width; i++) {
            extra_bar[width + i] += prediction_bar[i] * top[i];
            extra_bar[2 * width + i] += prediction_bar[i];
            input_bar[i] = prediction_bar[i] * extra[width + i];
        }
        for (int l = layers - 1; l >= 0; l--) {
            const double *hidden = before + 2 * width * l;
            double *weights_bar = main_bar + 8 * width * l, *hidden_bar = current_bar + 2 * width * l;
            layer_adjoint(width, main + 8 * width * l, hidden, hidden + width,
                          l ? after + 2 * width * (l - 1) : scaled, kept + KEPT * width * (layers * t + l),
                          weights_bar, weights_bar + 4 * width, hidden_bar, hidden_bar + width, input_bar);
        }
        for (int i = 0; i < width; i++) {
            extra_bar[i] += input_bar[i] * x[i];
            sequence_bar[t * width + i] += input_bar[i] * extra[i];
        }
    }
    for (int i = 0; i < size; i++)
        state_bar[i] += current_bar[i];
    free(input_bar);
    free(current_bar);
    free(prediction);
    free(scaled);
    free(predictions_bar);
    free(kept);
    free(states);
}
