"""Makes run folders of other people's models: tensor2tensor's, Marian's and Hugging Face's."""
