/* Loss of a small LSTM that predicts the next element of a sequence, after the AD benchmark's definition: diagonal
 * weights, `layers` layers of `width` cells, log-softmax with two added to the sum. The state is updated in place while
 * the sequence is read, in a copy on the heap.
 */
#include "program.h"
#include <stdlib.h>
#include <string.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* One layer, one step. weights and biases: forget, ingate, outgate, change. */
static void layer(int width, const double *weights, const double *biases, double *hidden, double *cell,
                  const double *input) {
    for (int i = 0; i < width; i++) {
        double forget = sigmoid(input[i] * weights[i] + biases[i]);
        double ingate = sigmoid(hidden[i] * weights[width + i] + biases[width + i]);
        double outgate = sigmoid(input[i] * weights[2 * width + i] + biases[2 * width + i]);
        double change = tanh(hidden[i] * weights[3 * width + i] + biases[3 * width + i]);
        cell[i] = cell[i] * forget + ingate * change;
        hidden[i] = outgate * tanh(cell[i]);
    }
}

static void predict(int layers, int width, const double *main, const double *extra, double *state, const double *x,
                    double *prediction) {
    for (int i = 0; i < width; i++)
        prediction[i] = x[i] * extra[i];
    const double *input = prediction;
    for (int l = 0; l < layers; l++) {
        const double *weights = main + 8 * width * l;
        double *hidden = state + 2 * width * l;
        layer(width, weights, weights + 4 * width, hidden, hidden + width, input);
        input = hidden;
    }
    for (int i = 0; i < width; i++)
        prediction[i] = input[i] * extra[width + i] + extra[2 * width + i];
}

/* main[layers][2][4][width], extra[3][width], state[layers][2][width], sequence[length][width]. */
EXPORT(lstm_objective)
double lstm_objective(int layers, int length, int width, const double *main, const double *extra, const double *state,
                      const double *sequence) {
    size_t bytes = sizeof(double) * 2 * layers * width;
    double *current = malloc(bytes);
    memcpy(current, state, bytes);
    double *prediction = calloc(width, sizeof(double));
    double total = 0;
    for (int t = 0; t + 1 < length; t++) {
        predict(layers, width, main, extra, current, sequence + t * width, prediction);
        double sum = 2;
        for (int i = 0; i < width; i++)
            sum += exp(prediction[i]);
        double normal = log(sum);
        for (int i = 0; i < width; i++)
            total += sequence[(t + 1) * width + i] * (prediction[i] - normal);
    }
    free(prediction);
    free(current);
    return -total / (width * (length - 1));
}
