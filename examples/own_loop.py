"""CAR in a plain PyTorch loop, on digits with 40 % wrong labels; its five lines are marked.

python examples/own_loop.py            # a few seconds on one core
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import surelabel

NUM_CLASSES = 10
EPOCHS, FIRST_CORRECTION = 60, 7  # the paper corrects from epoch 60 of 500 on, the same fraction


def make_data() -> tuple[torch.Tensor, ...]:
    """Return digits, with the labels of four in ten training rows changed to another class."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x / 8 - 1, y, test_size=0.2, random_state=0, stratify=y)
    clean = torch.tensor(y_train)
    wrong = torch.randperm(len(clean))[: int(0.4 * len(clean))]
    given = clean.clone()
    given[wrong] = (given[wrong] + torch.randint(1, NUM_CLASSES, (len(wrong),))) % NUM_CLASSES
    inputs = (torch.tensor(part, dtype=torch.float32) for part in (x_train, x_test))
    return *inputs, clean, given, torch.tensor(y_test)


def make_network() -> nn.Module:
    """Return the network; any module that ends in a Linear layer will do."""
    hidden = [nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(256, NUM_CLASSES))


def main() -> None:
    """Train, and print the accuracy of the network and of the corrected labels."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, x_test, clean, given, y_test = make_data()

    model = surelabel.add_indicator(make_network())  # CAR 1: logits and a confidence per input
    targets = surelabel.SampleStore.one_hot(given, NUM_CLASSES)  # CAR 2: a target per sample
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    # The loader also returns the row numbers, because each row has a target.
    loader = DataLoader(TensorDataset(torch.arange(len(x)), x), batch_size=128, shuffle=True)
    for epoch in range(1, EPOCHS + 1):
        for index, inputs in loader:
            logits, confidence = model(inputs)  # CAR 3
            momentum = 0.9 if epoch >= FIRST_CORRECTION else 1.0
            targets.blend(index, logits.softmax(1), momentum)  # CAR 4: move targets to the predictions
            loss = surelabel.car_loss(logits, confidence, targets.read(index), penalty_weight=0.2).mean()  # CAR 5
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()

    model.eval()
    with torch.no_grad():
        accuracy = (model(x_test)[0].argmax(1) == y_test).float().mean().item()
    corrected = targets.whole().argmax(1)
    print(f"test accuracy {accuracy:.3f}")
    print(f"training labels right: {(given == clean).float().mean():.3f} as given, ", end="")
    print(f"{(corrected == clean).float().mean():.3f} after correction")


if __name__ == "__main__":
    main()
