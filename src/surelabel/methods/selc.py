"""SELC: Self-Ensemble Label Correction (Lu and He, 2022), which is CAR without its tau.

    epochs 1 .. T      L = -log p_y
    afterwards         t <- alpha t + (1 - alpha) p     before the loss; t starts as e_y
                       L = -sum_k t_k log p_k

p is the detached prediction of the same forward pass. After n updates t is an average of the last
predictions, in which the given label still weighs alpha^n. The loss is CAR's Eq. 7 with tau = 1,
which leaves neither damping nor penalty, and the update is CAR's Eq. 8 with delta = 0: what `car`
gains over `selc` with the same start and momentum is what tau adds. It is also SAT without the
weights.

Defaults are the authors' (MacLLL/SELC on GitHub): alpha 0.9, and for T 30 of 200 epochs, the median
of their ten runs on CIFAR, rescaled to the run. They choose T for each run: 20, 40, 60 and 80 %
symmetric and 40 % asymmetric noise have 40, 30, 30, 40 and 40 on CIFAR-10, and 30, 20, 30, 40 and
20 on CIFAR-100. Clothing1M has 5 of 40 epochs and alpha 0.8, WebVision and ANIMAL-10N 40 of 100.

Where we differ from the authors' code:

- t is a buffer, so it survives a restart (theirs is lost), and log p is a log-softmax (theirs is
  the logarithm of a softmax, which is infinite once p underflows).
- SELC+, which trains a second network with mixup on argmax t, is not implemented. Export the
  corrected labels and fit them with `--method mixup`.

T must end before wrong labels are memorised, which takes a few epochs on easy data. On digits with
40 % symmetric noise and with 30 % pair flips (100 epochs, seed 0) the last accuracy is 0.77 and
0.78 with the published fraction, 15 epochs, 0.84 and 0.84 with 5, and 0.89 and 0.86 with 2. The
verdict is the default, the running mean of p at the given label: its AUROC there is 0.89 and 0.84,
0.951 and 0.892, and 0.980 and 0.929. CAR's, which takes the mean with t_y, has 0.86 and 0.82, 0.949
and 0.893, and 0.981 and 0.932: it loses more where the start is late than it gains where it is not.
"""

from torch import Tensor

from surelabel.core import Batch
from surelabel.core.losses import cross_entropy
from surelabel.methods.sat import SAT


class SELC(SAT):
    """Targets that drift from the given labels to the predictions, after a start without them.

    Options:
        correction_start: T, epochs of plain cross entropy before targets change; default the
          published share, 30/200; it must end before wrong labels are memorised
        momentum: alpha, the fraction of the old target that stays in an update
    """

    paper = "Lu and He: SELC: Self-Ensemble Label Correction Improves Learning with Noisy Labels, IJCAI"
    year = 2022
    when = "You want to see what CAR gains from tau: it is CAR without it. Set `correction_start` early."
    start_share = 30 / 200

    def loss(self, batch: Batch, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross entropy with the targets, all of which weigh the same."""
        return batch.mean(cross_entropy(logits, target))
