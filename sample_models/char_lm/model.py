import torch.nn as nn


class CharLSTM(nn.Module):
    def __init__(self, vocab, size, layers, tied=True):
        super(CharLSTM, self).__init__()
        self.size, self.layers = size, layers
        self.embed = nn.Embedding(vocab, size)
        self.lstm = nn.LSTM(size, size, layers)
        self.decoder = nn.Linear(size, vocab)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        if tied:
            # one matrix reads characters and writes them
            self.decoder.weight = self.embed.weight

    def forward(self, ids, state):
        output, state = self.lstm(self.embed(ids), state)
        return self.decoder(output), state

    def init_state(self, batch):
        weight = self.embed.weight
        return tuple(weight.new_zeros(self.layers, batch, self.size) for _ in range(2))
