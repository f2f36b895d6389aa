/* Adjoint of network_loss.
 *
 * Objects as in the program, each with two functions: one that applies the layer and one that goes back. Stored for each
 * layer: its values and the slopes of its activation, which cost little where the value is computed, and much afterwards.
 */
#include "adjoint.h"

#include <stdlib.h>

typedef struct Layer Layer;

struct Layer {
    int inputs, outputs;
    const double *weights;
    double *weights_bar;
    const double *read;
    double *values, *slopes, *values_bar;
    void (*apply)(const Layer *layer, const double *inputs);
    void (*back)(const Layer *layer, double *inputs_bar);
    double (*activation)(double, double *slope);
    Layer *before;
};

static double identity(double x, double *slope) {
    *slope = 1;
    return x;
}

static double rectify(double x, double *slope) {
    *slope = x > 0 ? 1 : 0;
    return x > 0 ? x : 0;
}

static double swish(double x, double *slope) {
    double sum = 1 + exp(-x), part = 1 / sum;
    *slope = part * (1 + x * (1 - part));
    return x / sum;
}

static double squash(double x, double *slope) {
    double value = tanh(x);
    *slope = 1 - value * value;
    return value;
}

static double (*const activations[])(double, double *) = {identity, rectify, swish, squash};

static void apply_dense(const Layer *layer, const double *inputs) {
    const double *weight = layer->weights;
    for (int i = 0; i < layer->outputs; i++) {
        double sum = *weight++;
        for (int j = 0; j < layer->inputs; j++)
            sum += *weight++ * inputs[j];
        layer->values[i] = layer->activation(sum, &layer->slopes[i]);
    }
}

static void back_dense(const Layer *layer, double *inputs_bar) {
    const double *weight = layer->weights, *read = layer->read;
    double *weight_bar = layer->weights_bar;
    int inputs = layer->inputs;
    for (int i = 0; i < layer->outputs; i++) {
        double sum_bar = layer->values_bar[i] * layer->slopes[i];
        *weight_bar++ += sum_bar;
        weight++;
        for (int j = 0; j < inputs; j++) {
            *weight_bar++ += sum_bar * read[j];
            inputs_bar[j] += sum_bar * *weight++;
        }
    }
}

static void apply_diagonal(const Layer *layer, const double *inputs) {
    for (int i = 0; i < layer->outputs; i++)
        layer->values[i] = layer->activation(layer->weights[i] * inputs[i], &layer->slopes[i]);
}

static void back_diagonal(const Layer *layer, double *inputs_bar) {
    for (int i = 0; i < layer->outputs; i++) {
        double product_bar = layer->values_bar[i] * layer->slopes[i];
        layer->weights_bar[i] += product_bar * layer->read[i];
        inputs_bar[i] += product_bar * layer->weights[i];
    }
}

static void apply_softmax(const Layer *layer, const double *inputs) {
    double sum = 0;
    for (int i = 0; i < layer->outputs; i++)
        sum += layer->values[i] = exp(inputs[i]);
    for (int i = 0; i < layer->outputs; i++)
        layer->values[i] /= sum;
}

static void back_softmax(const Layer *layer, double *inputs_bar) {
    double sum = 0;
    for (int i = 0; i < layer->outputs; i++)
        sum += layer->values[i] * layer->values_bar[i];
    for (int i = 0; i < layer->outputs; i++)
        inputs_bar[i] += layer->values[i] * (layer->values_bar[i] - sum);
}

/* How many parameters it has. */
static int make(Layer *layer, int kind, int inputs, int outputs, const double *weights, double *weights_bar) {
    layer->inputs = inputs;
    layer->outputs = outputs;
    layer->weights = weights;
    layer->weights_bar = weights_bar;
    layer->values = malloc(sizeof(double) * outputs);
    layer->slopes = malloc(sizeof(double) * outputs);
    layer->values_bar = calloc(outputs, sizeof(double));
    layer->activation = activations[kind % 4];
    if (kind < 4) {
        layer->apply = apply_dense;
        layer->back = back_dense;
        return (inputs + 1) * outputs;
    }
    if (inputs != outputs)
        __builtin_trap();
    layer->apply = kind < 8 ? apply_diagonal : apply_softmax;
    layer->back = kind < 8 ? back_diagonal : back_softmax;
    return kind < 8 ? outputs : 0;
}

ADJOINT(network_loss_adjoint)
void network_loss_adjoint(int n, const int *widths, const int *kinds, const double *parameters, const double *input,
                          const double *target, double *parameters_bar, double *input_bar, double *target_bar,
                          double seed) {
    Layer *last = NULL;
    const double *values = input;
    for (int i = 0; i < n; i++) {
        Layer *layer = malloc(sizeof(Layer));
        int used = make(layer, kinds[i], widths[i], widths[i + 1], parameters, parameters_bar);
        parameters += used;
        parameters_bar += used;
        layer->read = values;
        layer->apply(layer, values);
        values = layer->values;
        layer->before = last;
        last = layer;
    }
    double *values_bar = last ? last->values_bar : input_bar;
    for (int i = 0; i < widths[n]; i++) {
        double error_bar = seed * (values[i] - target[i]);
        values_bar[i] += error_bar;
        target_bar[i] -= error_bar;
    }
    while (last) {
        Layer *before = last->before;
        last->back(last, before ? before->values_bar : input_bar);
        free(last->values_bar);
        free(last->slopes);
        free(last->values);
        free(last);
        last = before;
    }
}
